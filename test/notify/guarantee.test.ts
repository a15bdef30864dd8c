/**
 * The guarantee of notifications: the latest state of each alert reaches each receiver that selects it at least once, despite
 * failures of receivers, processes and the store, and despite changes of the configuration.
 */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { fingerprintOf, type Notice } from '../../src/notify/notice.ts';
import type { SendResult } from '../../src/notify/notifiers/receiver.ts';
import {
  ACCEPTED,
  createDeliveryScene,
  createReceiver,
  DOWN,
  FAILED,
  HOUR,
  MINUTE,
  REFUSED,
  REJECTED,
  SECOND,
  type TestReceiver,
} from '../rules/alerting-scene.ts';
import { runs } from '../support/runs.ts';

const GROUPINGS = [
  { by: ['alertname', 'account'], wait: 10 * SECOND, repeatEvery: HOUR },
  { by: ['...'], wait: 0, repeatEvery: HOUR },
  { by: [], wait: 30 * SECOND, repeatEvery: HOUR },
];
const LOST: SendResult = { kind: 'retry', answer: 'TimeoutError', isDown: true, isUnsent: false };
const RESULTS: readonly SendResult[] = [DOWN, FAILED, REFUSED, REJECTED, LOST];
const ACCOUNTS = ['a', 'b'];

interface World {
  /** Firing alerts at the receiver by fingerprint, as its accepted requests say. */
  readonly shown: Map<string, Notice>;
  /** Accepted content of each key, to compare repetitions. */
  readonly byKey: Map<string, string>;
  /** Episodes that were accepted as firing. */
  readonly accepted: Set<string>;
  answer: SendResult;
  /** Label x of an alert that the receiver always refuses. */
  bad: string | undefined;
  /** Whether the process dies after the next request, before it learns the result. */
  isLost: boolean;
}

/** A receiver that records accepted requests. If `die.now` is set, its process is dead and sends no requests. */
function createWitness(kind: 'state' | 'changes', name: string, grouping: (typeof GROUPINGS)[number] | undefined) {
  const receiver = createReceiver(kind, name, 0, grouping);
  const world: World = {
    shown: new Map(),
    byKey: new Map(),
    accepted: new Set(),
    answer: ACCEPTED,
    bad: undefined,
    isLost: false,
  };
  const die = { now: false };
  receiver.send = async (notices, signal, group) => {
    if (die.now) throw new Error('dead');
    const isBad = notices.some(({ labels }) => labels.x === world.bad);
    const result = world.answer === ACCEPTED && isBad ? REFUSED : world.answer;
    // A lost response: the receiver accepted the request.
    if (result.kind === 'ok' || result === LOST) {
      const text = JSON.stringify(notices.map(({ status, labels, startsAt }) => [status, labels, startsAt]).sort());
      if (group && !receiver.isMerging) {
        expect(world.byKey.get(group.key) ?? text).toBe(text);
        world.byKey.set(group.key, text);
      }
      for (const notice of notices) {
        const fingerprint = fingerprintOf(notice.labels);
        if (notice.status === 'firing') {
          world.shown.set(fingerprint, notice);
          world.accepted.add(`${notice.labels.x} ${notice.startsAt}`);
        } else world.shown.delete(fingerprint);
      }
    }
    if (world.isLost) {
      die.now = true;
      signal.throwIfAborted();
      throw new Error('dead');
    }
    return result;
  };
  return { receiver, world, die };
}

const step = fc.record({
  what: fc.constantFrom(
    'begin',
    'begin',
    'end',
    'end',
    'forget',
    'silence',
    'unsilence',
    'pass',
    'pass',
    'wait',
    'day',
    'answer',
    'recover',
    'recover',
    'bad',
    'kill',
    'die after request',
    'die at commit',
    'full',
    'unknown',
    'known',
    'select',
    'secret',
    'regroup',
    'remove account',
  ),
  x: fc.constantFrom('1', '2', '3'),
  account: fc.constantFrom(...ACCOUNTS),
  index: fc.nat(4),
});

async function live(
  kind: 'state' | 'changes',
  grouping: (typeof GROUPINGS)[number] | undefined,
  steps: readonly Step[],
  isCalm = false,
) {
  const witness = createWitness(kind, 'hook', grouping);
  const { world, die } = witness;
  let { receiver } = witness;
  const scene = await createDeliveryScene([receiver]);
  const { states, store } = scene;
  const begun = new Set<string>();
  let isSelected: (labels: Readonly<Record<string, string>>) => boolean = () => true;
  const use = (next: TestReceiver) => {
    receiver = Object.assign(next, { selects: isSelected });
    scene.deliveries()[0]?.use(receiver);
  };
  async function restart() {
    die.now = false;
    world.isLost = false;
    await scene.restart([receiver]);
  }
  const keyOf = ({ x, account }: Step) => `${account}${x}`;
  async function act(each: Step): Promise<void> {
    const { what, account, index } = each;
    const key = keyOf(each);
    const state = states.get(key);
    scene.clock.pass(1);
    switch (what) {
      case 'begin':
        if (state?.status !== 'firing') scene.begin(key, { labels: { alertname: 'A', account, x: key } });
        return;
      case 'end':
        return scene.end(key);
      case 'forget':
        // A resolved state expires; a firing one goes with its rule.
        return void states.delete(key);
      case 'silence':
        if (state?.status === 'firing') states.set(key, { ...state, isSuppressed: true });
        return;
      case 'unsilence':
        if (state) states.set(key, { ...state, isSuppressed: undefined });
        return;
      case 'pass':
        return scene.deliver(SECOND);
      case 'wait':
        return scene.deliver(MINUTE);
      case 'day':
        for (let hour = 0; hour < 25; hour += 1) await scene.deliver(HOUR);
        return;
      case 'answer':
        world.answer = RESULTS[index] ?? DOWN;
        return;
      case 'recover':
        world.answer = ACCEPTED;
        world.bad = undefined;
        return;
      case 'bad':
        world.bad = key;
        return;
      case 'kill':
        return restart();
      case 'die after request':
        world.isLost = true;
        await scene.deliver(MINUTE);
        return restart();
      case 'die at commit': {
        const { commit } = store;
        store.commit = async (...args) => {
          if (!die.now && index % 2 === 0) await commit(...args);
          die.now = true;
          throw new Error('dead');
        };
        await scene.deliver(MINUTE);
        store.commit = commit;
        return restart();
      }
      case 'full':
        store.isFull = true;
        await scene.deliver(MINUTE);
        store.isFull = false;
        return scene.deliver();
      case 'unknown':
        return void scene.unknown.add(account);
      case 'known':
        return void scene.unknown.delete(account);
      case 'select':
        isSelected = index === 0 ? () => true : ({ account: own, x }) => (index === 1 ? own === account : x !== key);
        return use(receiver);
      case 'secret':
        receiver.secret = `secret ${index}`;
        return;
      case 'regroup':
        if (kind === 'changes' && grouping) use(Object.assign(receiver, { grouping: GROUPINGS[index] ?? grouping }));
        return;
      case 'remove account':
        for (const [each, { labels }] of states) if (labels.account === account) states.delete(each);
        return;
    }
  }
  /** Returns the shown alerts that must not be resolved now: they fire, but are silenced or unknown. */
  const held = () =>
    [...states.values()]
      .filter(({ status, labels, isSuppressed }) => {
        const isHeld = isSuppressed || scene.unknown.has(labels.account ?? '');
        return status === 'firing' && isHeld && isSelected(labels) && world.shown.has(fingerprintOf(labels));
      })
      .map(({ labels, startsAt }) => `${labels.x} ${startsAt}`);
  for (const each of steps) {
    const before = held();
    await act(each);
    if (each.what === 'begin') begun.add(`${keyOf(each)} ${states.get(keyOf(each))?.startsAt}`);
    if (isCalm) await scene.deliver(SECOND);
    const stillHeld = before.filter(each =>
      [...states.values()].some(({ labels, startsAt, isSuppressed, status }) => {
        const isHeld = isSuppressed || scene.unknown.has(labels.account ?? '');
        return `${labels.x} ${startsAt}` === each && status === 'firing' && isHeld && isSelected(labels);
      }),
    );
    expect([...world.shown.values()].map(({ labels }) => labels.x)).toEqual(
      expect.arrayContaining(stillHeld.map(each => each.split(' ')[0])),
    );
  }
  // Everything recovers.
  world.answer = ACCEPTED;
  world.bad = undefined;
  scene.unknown.clear();
  for (const [key, state] of states) states.set(key, { ...state, isSuppressed: undefined });
  for (let pass = 0; pass < 4; pass += 1) await scene.deliver(2 * HOUR);
  for (let pass = 0; pass < 40; pass += 1) await scene.deliver(2 * SECOND);
  const firing = [...states.values()].filter(({ status, labels }) => status === 'firing' && isSelected(labels));
  return { scene, world, firing, receiver, begun };
}
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

const startsOf = (notices: Iterable<Notice>) =>
  [...notices].map(({ labels, startsAt }) => `${labels.x} ${startsAt}`).sort();

it.each([
  ['an Alertmanager', 'state', undefined],
  ['a receiver of single alerts', 'changes', undefined],
  ['a receiver of groups', 'changes', GROUPINGS[0]],
] as const)(
  'the latest state of each alert reaches %s, and alerts sent as firing are resolved when they end',
  async (_name, kind, grouping) => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 50 }), async steps => {
        const { scene, world, firing, receiver } = await live(kind, grouping, steps);
        expect(startsOf(world.shown.values())).toEqual(startsOf(firing));
        // The log has exactly the alerts that the receiver shows, and each was sent to its current address.
        const logged = [...(await scene.rows()).values()].flatMap(row =>
          Object.values<{ labels: Notice['labels']; startsAt: number; receiver: string }>(JSON.parse(row).alerts),
        );
        expect(logged.map(({ labels, startsAt }) => `${labels.x} ${startsAt}`).sort()).toEqual(startsOf(firing));
        expect(logged.every(each => each.receiver === receiver.secret)).toBe(true);
        expect(
          scene.log.lines.filter(
            ({ message, fields }) => message === 'bug' && !JSON.stringify(fields).includes('dead'),
          ),
        ).toEqual([]);
      }),
      { numRuns: runs(300) },
    );
  },
);

it('each episode is accepted as firing, or counted as dropped and logged', async () => {
  const calm = step.filter(({ what }) => ['begin', 'end', 'pass', 'wait', 'answer', 'recover', 'bad'].includes(what));
  await fc.assert(
    fc.asyncProperty(fc.array(calm, { maxLength: 40 }), async steps => {
      const { world, scene, begun } = await live('changes', undefined, steps, true);
      const logged = scene.log.lines.filter(({ message }) => message === 'a notification is dropped');
      expect(scene.counts['hook dropped'] ?? 0).toBe(logged.length);
      expect(world.accepted.size + logged.length).toBe(begun.size);
    }),
    { numRuns: runs(100) },
  );
});
