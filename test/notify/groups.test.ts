import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fingerprintOf, type Notice } from '../../src/notify/notice.ts';
import type { SendResult } from '../../src/notify/notifiers/receiver.ts';
import {
  ACCEPTED,
  createOutboxScene,
  createReceiver,
  DOWN,
  HOUR,
  MINUTE,
  notice,
  REFUSED,
  SECOND,
} from '../rules/alerting-scene.ts';
import { runs } from '../support/runs.ts';

const WAIT = 10 * SECOND;
const grouping = { by: ['alertname', 'account'], wait: WAIT, repeatEvery: 4 * HOUR };

async function createScene(by: readonly string[] = grouping.by) {
  const hook = createReceiver('changes', 'hook', 0, { ...grouping, by });
  const firing = new Map<string, Notice>();
  const scene = await createOutboxScene([hook], () => [...firing.values()]);
  const { clock } = scene;
  return {
    ...scene,
    hook,
    firing,
    /** Posts the firing notice of an alert, as its account's evaluation would. */
    async begin(x: string, more: Partial<Notice> = {}) {
      const one = notice(x, { startsAt: clock.now(), ...more });
      firing.set(x, one);
      await scene.post(one);
    },
    async end(x: string) {
      const one = firing.get(x);
      firing.delete(x);
      if (one) await scene.post({ ...one, status: 'resolved', endsAt: clock.now() });
    },
  };
}

describe('groups', () => {
  it('a group is sent in one notification when the group wait time has passed since its first change', async () => {
    const scene = await createScene();
    await scene.begin('1');
    await scene.deliver(WAIT - SECOND);
    await scene.begin('2');
    expect(scene.hook.sent).toEqual([]);
    await scene.deliver(SECOND);
    expect(scene.hook.sent).toEqual(['firing 1, firing 2']);
    await scene.deliver(HOUR);
    expect(scene.hook.sent).toHaveLength(1);
    expect(scene.counts).toEqual({ 'hook sent': 1 });
    expect(await scene.rows()).toBe(0);
  });

  it('a rejected group notification is retried after the repeat interval, after a restart and when the receiver changes', async () => {
    const scene = await createScene();
    scene.hook.answer = () => REFUSED;
    await scene.begin('1');
    await scene.deliver(WAIT);
    expect(scene.hook.sent).toHaveLength(1);
    await scene.deliver(4 * HOUR);
    await scene.deliver(MINUTE);
    expect(scene.hook.sent).toHaveLength(2);
    await scene.restart();
    await scene.deliver();
    expect(scene.hook.sent).toHaveLength(3);
    const next = createReceiver('changes', 'hook', 0, grouping);
    await scene.outbox().use([next]);
    await scene.deliver();
    await scene.deliver(MINUTE);
    expect([scene.hook.sent.length, next.sent]).toEqual([3, ['firing 1']]);
    expect(scene.counts).toEqual({ 'hook dropped': 3, 'hook sent': 1 });
  });

  it('a restart of the agent does not restart the group wait time', async () => {
    const scene = await createScene();
    await scene.begin('1');
    await scene.deliver(6 * SECOND);
    await scene.restart();
    await scene.deliver(3 * SECOND);
    expect(scene.hook.sent).toEqual([]);
    await scene.deliver(SECOND);
    expect(scene.hook.sent).toEqual(['firing 1']);
  });

  it('a group notification contains the changed alerts and all other firing alerts, with their latest annotations', async () => {
    const scene = await createScene();
    await scene.begin('1');
    await scene.deliver(WAIT);
    const [known] = scene.firing.values();
    if (known) scene.firing.set('1', { ...known, annotations: { summary: 'now 5' } });
    await scene.begin('2');
    await scene.deliver(WAIT);
    await scene.end('2');
    await scene.deliver(WAIT);
    await scene.end('1');
    await scene.deliver(WAIT);
    expect(scene.hook.sent).toEqual(['firing 1', 'firing 2, firing 1', 'resolved 2, firing 1', 'resolved 1']);
    expect(scene.hook.notices[2]?.annotations).toEqual({ summary: 'now 5' });
  });

  it('each combination of grouping-label values has its own group; without grouping labels, there is one group', async () => {
    const change = (account: string, x: string) => notice(x, { labels: { alertname: 'A', account, x } });
    const [byAccount, all, every] = [await createScene(), await createScene([]), await createScene(['...'])];
    for (const scene of [byAccount, all, every]) {
      await scene.post(change('a', '1'), change('b', '2'), change('a', '3'));
      await scene.deliver(WAIT);
    }
    expect(byAccount.hook.sent).toEqual(['firing 1, firing 3', 'firing 2']);
    expect(all.hook.sent).toEqual(['firing 1, firing 2, firing 3']);
    expect(every.hook.sent).toEqual(['firing 1', 'firing 2', 'firing 3']);
  });

  it('a group is repeated only while an alert fires; the repeat interval starts at the last notification, even after restarts', async () => {
    const scene = await createScene();
    await scene.begin('1');
    await scene.deliver(WAIT);
    await scene.deliver(4 * HOUR - SECOND);
    expect(scene.hook.sent).toHaveLength(1);
    await scene.restart();
    await scene.deliver(SECOND);
    expect(scene.hook.sent).toEqual(['firing 1', 'firing 1']);
    await scene.restart();
    await scene.deliver(4 * HOUR - SECOND);
    await scene.end('1');
    await scene.deliver(WAIT);
    await scene.restart();
    await scene.deliver(9 * HOUR);
    expect(scene.hook.sent).toEqual(['firing 1', 'firing 1', 'resolved 1']);
    expect(new Set(scene.hook.keys).size).toBe(3);
    expect((await scene.store.scan('', 'alerts/')).size).toBe(0);
  });

  it.each([-1, 1])('a group is repeated only once when the clock jumps by a year (%d)', async years => {
    const scene = await createScene();
    await scene.begin('1');
    await scene.deliver(WAIT);
    scene.clock.set(years * 365 * 24 * HOUR);
    await scene.deliver(MINUTE);
    expect(scene.hook.sent).toEqual(['firing 1', 'firing 1']);
    await scene.deliver(4 * HOUR - SECOND);
    expect(scene.hook.sent).toHaveLength(2);
    await scene.deliver(MINUTE);
    expect(scene.hook.sent).toHaveLength(3);
  });

  it('a group without a stored last notification is repeated one repeat interval after its alert started', async () => {
    const scene = await createScene();
    scene.firing.set('1', notice('1', { startsAt: scene.clock.now() - HOUR }));
    await scene.restart();
    await scene.deliver(3 * HOUR - WAIT);
    expect(scene.hook.sent).toEqual([]);
    await scene.deliver(WAIT);
    expect(scene.hook.sent).toEqual(['firing 1']);
  });

  it('at most 250 groups are sent per pass; later passes send the others', async () => {
    const scene = await createScene(['...']);
    await scene.post(...Array.from({ length: 600 }, (_, x) => notice(String(x))));
    await scene.deliver(WAIT);
    expect(scene.hook.sent).toHaveLength(250);
    await scene.deliver();
    await scene.deliver();
    expect(new Set(scene.hook.sent).size).toBe(600);
  });

  it('each episode of an alert is sent once, even if the alert resolves during the group wait time', async () => {
    const scene = await createScene();
    for (let episode = 0; episode < 3; episode += 1) {
      await scene.begin('1');
      await scene.deliver(SECOND);
      await scene.end('1');
      await scene.deliver(SECOND);
    }
    for (let pass = 0; pass < 3; pass += 1) await scene.deliver(WAIT);
    expect(scene.hook.sent).toEqual(['resolved 1', 'resolved 1', 'resolved 1']);
    expect(new Set(scene.hook.notices.map(({ startsAt }) => startsAt)).size).toBe(3);
  });

  it('a group of ten thousand alerts is sent as one notification with the number of omitted alerts', async () => {
    const scene = await createScene(['alertname']);
    const left: number[] = [];
    const { send } = scene.hook;
    scene.hook.send = (notices, signal, group) => {
      left.push(group?.left ?? -1);
      return send(notices, signal, group);
    };
    await scene.post(
      ...Array.from({ length: 10_000 }, (_, index) =>
        notice('x', { labels: { alertname: 'A', account: `account-${index}` } }),
      ),
    );
    await scene.deliver(WAIT);
    expect(scene.hook.sent).toHaveLength(1);
    expect([scene.hook.notices.length, left]).toEqual([250, [9750]]);
    expect(await scene.rows()).toBe(0);
  });

  it('a group is truncated to the size limit but keeps at least one alert', async () => {
    const scene = await createScene();
    const large = { annotations: { summary: 'x'.repeat(100_000) } };
    await scene.post(notice('1', large), notice('2', large), notice('3', large));
    await scene.post(notice('4', { labels: { alertname: 'B' }, annotations: { summary: 'x'.repeat(1e6) } }));
    await scene.deliver(WAIT);
    expect(scene.hook.sent).toEqual(['firing 1, firing 2', 'firing B']);
  });

  it('alerts with a fixed duration are not grouped', async () => {
    const scene = await createScene();
    await scene.begin('1');
    await scene.post(notice('2', { lasts: 1000 }));
    await scene.deliver();
    expect(scene.hook.sent).toEqual(['firing 2']);
  });

  it('the stored time of a group’s last notification is deleted if its account or rule no longer exists', async () => {
    const scene = await createScene();
    await scene.begin('1');
    await scene.deliver(WAIT);
    expect((await scene.store.scan('', 'alerts/told/')).size).toBe(1);
    scene.firing.clear();
    await scene.restart();
    await scene.deliver(5 * HOUR);
    expect((await scene.store.scan('', 'alerts/told/')).size).toBe(0);
  });

  it('groups drop the oldest change if more than ten thousand changes are waiting', async () => {
    const scene = await createScene(['...']);
    await scene.post(...Array.from({ length: 10_001 }, (_, x) => notice(String(x))));
    expect(scene.counts).toEqual({ 'hook dropped': 1 });
  });
});

/** Actions that the test runs in random order. */
type Step =
  | 'begin'
  | 'end'
  | 'deliver'
  | 'wait'
  | 'kill'
  | 'kill at commit'
  | 'full'
  | 'down'
  | 'die before the answer';
const STEPS: readonly Step[] = [
  'begin',
  'end',
  'deliver',
  'wait',
  'kill',
  'kill at commit',
  'full',
  'down',
  'die before the answer',
];

/** Returns the content of a notification, regardless of the order of its alerts. */
const contentOf = (notices: readonly Notice[]) =>
  JSON.stringify(notices.map(({ status, labels, startsAt }) => [status, fingerprintOf(labels), startsAt]).sort());

it('every start and end of an alert is sent at least once, even if the process dies, and retries have the same key', async () => {
  const step = fc.record({ step: fc.constantFrom(...STEPS), x: fc.constantFrom('1', '2') });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async steps => {
      const scene = await createScene();
      const { hook, store, clock } = scene;
      const posted: Notice[] = [];
      /** Notifications that the receiver accepted, including those whose response the agent did not get. */
      const accepted: {
        readonly key: string | undefined;
        readonly content: string;
        readonly notices: readonly Notice[];
      }[] = [];
      let next: SendResult | 'lost' = ACCEPTED;
      let isDead = false;
      hook.send = async (notices, _signal, group) => {
        if (isDead) return DOWN;
        const answer = next;
        next = ACCEPTED;
        if (answer === 'lost' || answer.kind === 'accepted') {
          accepted.push({ key: group?.key, content: contentOf(notices), notices });
        }
        return answer === 'lost' ? DOWN : answer;
      };
      async function change(x: string, work: (x: string) => Promise<void>) {
        const before = scene.firing.get(x);
        await work(x);
        const after = scene.firing.get(x) ?? before;
        if (after) posted.push({ ...after, status: scene.firing.has(x) ? 'firing' : 'resolved' });
      }
      /** Kills the process during its next commit. `isCommitted`: whether the store executes that commit. */
      async function dieAtCommit(isCommitted: boolean) {
        const { commit } = store;
        store.commit = async (...args) => {
          const isLast = !isDead;
          isDead = true;
          if (!isLast || !isCommitted) throw new Error('dead');
          await commit(...args);
        };
        await scene.deliver(WAIT);
        store.commit = commit;
        isDead = false;
        await scene.restart();
      }
      for (const { step, x } of steps) {
        clock.pass(1);
        if (step === 'begin' && !scene.firing.has(x)) await change(x, scene.begin);
        if (step === 'end' && scene.firing.has(x)) await change(x, scene.end);
        if (step === 'deliver') await scene.deliver(SECOND);
        if (step === 'wait') await scene.deliver(WAIT);
        if (step === 'kill') await scene.restart();
        if (step === 'kill at commit') await dieAtCommit(x === '1');
        if (step === 'full') {
          store.isFull = true;
          await scene.deliver(WAIT);
          store.isFull = false;
        }
        if (step === 'down') next = DOWN;
        if (step === 'die before the answer') {
          next = 'lost';
          await scene.deliver(WAIT);
          await scene.restart();
        }
      }
      for (let pass = 0; pass < 30; pass += 1) await scene.deliver(WAIT);
      const received = accepted.flatMap(({ notices }) => notices);
      for (const { status, labels, startsAt } of posted) {
        const matching = received.filter(each => each.labels.x === labels.x && each.startsAt === startsAt);
        // A resolved notification may report both the start and the end.
        expect(matching.some(each => each.status === status || each.status === 'resolved')).toBe(true);
      }
      for (const { key, content } of accepted) {
        expect(accepted.filter(each => each.key === key).every(each => each.content === content)).toBe(true);
      }
      // Notifications with different keys have different contents, unless the store was full: then alerts may be sent again.
      const byKey = [...new Map(accepted.map(each => [each.key, each])).values()];
      const isStoring = steps.every(({ step }) => step !== 'full');
      if (isStoring) expect(new Set(byKey.map(({ content }) => content)).size).toBe(byKey.length);
      expect(await scene.rows()).toBe(0);
    }),
    { numRuns: runs(300) },
  );
});
