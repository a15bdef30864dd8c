import fc from 'fast-check';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Sending } from '../../src/notify/sending.ts';
import { StoreError } from '../../src/store/errors.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import type { Store } from '../../src/store/store.ts';
import { createSharedStore, type SharedStore } from '../support/fake-group.ts';
import { type Incarnation, PROBE, Witness } from '../support/incarnations.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { runs } from '../support/runs.ts';
import { accountNamed, configOf, type Opening, openSupervised } from '../support/supervised.ts';

/**
 * Configured accounts: one account of the service under one of two names or not at all. The account `b` is always configured.
 */
interface Configured {
  readonly one: 'a' | 'renamed' | undefined;
  /** Value of an account label. A change reopens the accounts. */
  readonly reading: number;
  /** Threshold of the alert rule. */
  readonly rule: number;
}

const configured: fc.Arbitrary<Configured> = fc.record({
  one: fc.constantFrom('a' as const, 'a' as const, 'renamed' as const, undefined),
  reading: fc.nat(2),
  rule: fc.nat(1),
});

const configFrom = ({ one, reading, rule }: Configured) => {
  const account = (name: string | undefined, token: string) =>
    name === undefined ? [] : [accountNamed(name, { token, region: `r${reading}` })];
  const when = { above: { metric: 'delivery_flow_control_keys', value: rule } };
  const webhook = { url: 'http://receiver.invalid', groupWait: '1s', repeatEvery: '1m' };
  return configOf([...account(one, 'token-one'), ...account('b', 'token-two')], {
    alerts: {
      enabled: true,
      evaluateEvery: '1s',
      rules: [{ name: 'Rule', when }],
      notifiers: [{ name: 'hook', webhook }],
    },
  });
};

type Of<A> = A extends fc.Arbitrary<infer T> ? T : never;

type Step =
  | { readonly kind: 'reload'; readonly to: Configured }
  | { readonly kind: 'advance' | 'opening' | 'stopping'; readonly ms: number }
  | { readonly kind: 'damage' | 'repair'; readonly name: string }
  | { readonly kind: 'pass the lease' | 'take' | 'return' | 'refuse commits' | 'accept commits' | 'away' | 'back' };

const name = fc.constantFrom('a', 'a', 'b', 'renamed');
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('reload' as const), to: configured }) },
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('advance' as const), ms: fc.constantFrom(0, 5, 100, 1000, 3500, 20_000) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constantFrom('opening', 'stopping'), ms: fc.constantFrom(0, 50, 2500) }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constantFrom('damage', 'damage', 'repair'), name }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constantFrom('pass the lease' as const, 'take' as const, 'return' as const) }),
  },
  fc.record({ kind: fc.constantFrom('refuse commits', 'accept commits', 'away', 'back') }),
);

const life = fc.record({
  isShared: fc.constantFrom(true, true, false),
  first: configured,
  steps: fc.array(step, { minLength: 4, maxLength: 16 }),
});

/** Conditions that steps change. */
interface World {
  readonly damaged: Set<string>;
  opening: number;
  stopping: number;
  refusesCommits: boolean;
}

const createWorld = (): World => ({ damaged: new Set(), opening: 0, stopping: 0, refusesCommits: false });

/** Wraps the store of the process. */
function watched(store: Store, world: World, witness: Witness): Store {
  const commit: Store['commit'] = (account, changes, guard) => {
    const probe = changes.find(({ key }) => key.startsWith(PROBE));
    if (probe) witness.reached(probe.key);
    if (probe || world.refusesCommits) return Promise.reject(new StoreError('io', 'the disk'));
    return store.commit(account, changes, guard);
  };
  return { ...store, commit };
}

/** Creates another process, which can acquire the lease immediately, or release it. */
function createRival(shared: SharedStore | undefined) {
  const rival = shared?.join('two').lease;
  return {
    async take(): Promise<void> {
      if (!shared) return;
      shared.next = 'two';
      shared.expire();
      await rival?.renew().catch(() => undefined);
    },
    async return(): Promise<void> {
      if (shared) shared.next = undefined;
      await rival?.release().catch(() => undefined);
    },
  };
}

async function live({ isShared, first, steps }: Of<typeof life>): Promise<readonly string[]> {
  const clock = createManualClock();
  const witness = new Witness();
  const world = createWorld();
  const shared = isShared ? createSharedStore(clock, 15_000) : undefined;
  const rival = createRival(shared);
  current = witness;
  const incarnations = new Map<Opening, Incarnation>();
  const of = (opening: Opening) => incarnations.get(opening) as Incarnation;

  const { supervisor, close } = await openSupervised({
    clock,
    store: watched(shared?.join('one') ?? createMemoryStore(), world, witness),
    config: configFrom(first),
    intervals: { save: 2000 },
    latency: 500,
    request: (opening, work) => witness.during(of(opening), 'request', work),
    async open(opening, open) {
      const born = witness.born(opening);
      incarnations.set(opening, born);
      const { store } = opening.deps;
      const commit: Store['commit'] = (...what) => witness.during(born, 'commit', () => store.commit(...what));
      return witness.during(born, 'open', async () => {
        if (world.opening > 0) await clock.sleep(world.opening);
        if (world.damaged.has(born.name)) throw new Error('damaged');
        const account = await open({ store: { ...store, commit } });
        let ending: Promise<void> | undefined;
        return {
          ...account,
          start() {
            witness.started(born);
            return account.start();
          },
          async stop() {
            // Simulates a cancel in flight. Its result must be recorded before the account stops.
            ending ??= witness.during(born, 'lingering request', () => clock.sleep(world.stopping));
            await Promise.all([account.stop(), ending]);
            born.isStopped = true;
          },
        };
      });
    },
  });
  supervisor.start(() => void witness.lost());

  const reloads: Promise<unknown>[] = [];
  const effects: { readonly [K in Step['kind']]: (step: Extract<Step, { kind: K }>) => unknown } = {
    reload: ({ to }) => reloads.push(supervisor.reload(configFrom(to))),
    advance: ({ ms }) => clock.advance(ms),
    opening: ({ ms }) => Object.assign(world, { opening: ms }),
    stopping: ({ ms }) => Object.assign(world, { stopping: ms }),
    damage: ({ name }) => world.damaged.add(name),
    repair: ({ name }) => world.damaged.delete(name),
    'pass the lease': () => shared && Object.assign(shared, { next: 'two' }),
    take: () => rival.take(),
    return: () => rival.return(),
    'refuse commits': () => Object.assign(world, { refusesCommits: true }),
    'accept commits': () => Object.assign(world, { refusesCommits: false }),
    away: () => shared && Object.assign(shared, { isUnavailable: true }),
    back: () => shared && Object.assign(shared, { isUnavailable: false }),
  };
  for (const each of steps) await (effects[each.kind] as (step: Step) => unknown)(each);

  await witness.expectOthersRevoked();
  let hasEnded = false;
  const stopping = supervisor.stop();
  witness.phase('stopping');
  const stopped = stopping.then(() => witness.phase('stopped'));
  const ended = stopped.then(close).then(() => {
    hasEnded = true;
    witness.phase('closed');
  });
  for (let second = 0; second < 60 && !hasEnded; second += 1) await clock.advance(1000);
  await ended;
  await Promise.all(reloads);
  await clock.advance(10_000);
  return clock.sleepers > 0 ? [...witness.violations, `${clock.sleepers} sleepers are left`] : witness.violations;
}

/** Witness of the current run, which also records notifications of the mocked receivers. */
let current: Witness | undefined;

beforeEach(() => {
  const prepare = Sending.prototype.prepare;
  vi.spyOn(Sending.prototype, 'prepare').mockImplementation(function (this: Sending, config) {
    const receivers = prepare.call(this, config);
    for (const receiver of receivers.all) {
      Object.assign(receiver, {
        async send(notices: readonly { readonly labels: Readonly<Record<string, string>> }[]) {
          for (const { labels } of notices) current?.notified(labels.account ?? '');
          return { kind: 'ok', answer: 'status 200' };
        },
      });
    }
    return receivers;
  });
});

afterEach(() => vi.restoreAllMocks());

it('incarnations of an account never overlap and do nothing after they have ended', async () => {
  await fc.assert(
    fc.asyncProperty(life, async life => {
      expect(await live(life)).toEqual([]);
    }),
    { numRuns: runs(120) },
  );
});
