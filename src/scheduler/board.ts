import type { Clock } from '../kit/clock.ts';
import type { AccountStatus, CollectorStatus, FailedFilter, Idle, RoundStatus } from '../model/status.ts';
import type { StalenessOptions } from './options.ts';

export interface Visible<Facts = unknown> {
  /** Facts for gauges; undefined before the first complete round and after withdrawal. */
  readonly now: Facts | undefined;
  /** Facts for counters and histograms: the last committed ones, regardless of their age. */
  readonly committed: Facts | undefined;
}

/** Freshness of a round's data as stored, in wall time: the only clock shared with the next process. */
export interface Freshness {
  /** End of the last complete round, or start of the first attempt if no round was complete. */
  readonly completeAt: number;
  /** Start of the attempts to complete another round; undefined while rounds succeed. */
  readonly tryingSince?: number | undefined;
  /** Duration of the last complete round (ms), if longer than its interval. */
  readonly took?: number | undefined;
}

/** Latest facts of one account's collector, and their freshness. Facts are replaced, never changed. */
export type CollectorState<Facts = unknown> = ReturnType<typeof createCollectorState<Facts>>;

export interface RoundOptions {
  readonly every: number;
  /** Number of missed intervals after which the data is stale; used if lower than `staleness.markAfter`. */
  readonly markAfter?: number | undefined;
}

/** `freshFrom` and `tryingFrom` are times of the monotonic clock, because wall time may step. */
interface RoundState extends Omit<RoundStatus, 'stale'> {
  readonly markAfter: number;
  /** End of the last complete round, or start of the first attempt if no round was complete. */
  readonly freshFrom: number;
  /** Start of the attempts to complete another round; before the start of this process only if earlier attempts failed. */
  readonly tryingFrom: number;
  /** Expected time between complete rounds (ms): the interval, or the duration of the last complete round if longer. */
  readonly expectedEvery: number;
  /** Delay before the last run is repeated (ms); undefined if it succeeded. */
  readonly retry: number | undefined;
}

/** Interval between probes for an endpoint that the service lacks (ms). */
const PROBE_EVERY = 3_600_000;

/** Part of a round's state before its first read. */
const UNREAD = {
  success: undefined,
  complete: undefined,
  partial: false,
  dataAt: undefined,
  consecutiveFailures: 0,
  failure: undefined,
} satisfies Partial<RoundState>;

/** State that a collector keeps after a reload. */
export interface Inherited<Facts = unknown> {
  readonly facts: Facts | undefined;
  readonly failedFilters: readonly FailedFilter[];
  readonly bornAt: number;
  readonly rounds: ReadonlyMap<string, RoundState>;
}

interface Attempt {
  readonly durationSeconds: number;
  readonly complete: boolean;
  readonly reason: string;
  readonly message: string;
  readonly retry?: number | undefined;
  /** Time of the retry (ms since the Unix epoch). */
  readonly retryAt?: number | undefined;
}

interface StateOptions<Facts> {
  readonly account: string;
  readonly collector: string;
  /** Failures of these rounds never cause the facts to be withdrawn. */
  readonly auxiliary?: readonly string[] | undefined;
  /** Whether the service may lack the data, so that the account's health does not depend on it. */
  readonly isOptional?: boolean | undefined;
  /** Freshness stored by an earlier process, by round. */
  readonly restored?: Readonly<Record<string, Freshness>> | undefined;
  /** State from before a reload. Gauges show its facts until the first complete round. */
  readonly inherited?: Inherited<Facts> | undefined;
}

// biome-ignore lint/complexity/noExcessiveLinesPerFunction: each method reads or writes the same few fields.
export function createCollectorState<Facts = unknown>(
  { account, collector, auxiliary = [], isOptional = false, restored = {}, inherited }: StateOptions<Facts>,
  rounds: Readonly<Record<string, RoundOptions>>,
  staleness: StalenessOptions,
  clock: Pick<Clock, 'now' | 'monotonic'>,
) {
  let facts: Facts | undefined;
  let earlier = inherited?.facts;
  let committed: Facts | undefined;
  let failedFilters = inherited?.failedFilters ?? [];
  let shown: Visible<Facts> = { now: undefined, committed: undefined };
  /** When this process first opened the collector. */
  const bornAt = inherited?.bornAt ?? clock.monotonic();
  const shortest = Math.min(...Object.values(rounds).map(({ every }) => every));
  const states = new Map<string, RoundState>();
  for (const [round, { every, markAfter = staleness.markAfter }] of Object.entries(rounds)) {
    const own = { round, every, markAfter: Math.min(markAfter, staleness.markAfter), retry: undefined };
    const last = inherited?.rounds.get(round);
    if (last) {
      const took = last.expectedEvery > last.every ? last.expectedEvery : 0;
      states.set(round, { ...last, ...own, retryAt: undefined, expectedEvery: Math.max(every, took) });
      continue;
    }
    const now = clock.now();
    const { completeAt = now, tryingSince = now, took = 0 } = restored[round] ?? {};
    // The wall clock may have been set back.
    const monotonic = (wall: number) => clock.monotonic() - Math.max(0, now - wall);
    states.set(round, {
      ...own,
      ...UNREAD,
      durationSeconds: undefined,
      idle: undefined,
      freshFrom: monotonic(completeAt),
      tryingFrom: monotonic(tryingSince),
      expectedEvery: Math.max(every, took),
    });
  }
  const state = (round: string) => states.get(round) as RoundState;
  const change = (round: string, changes: Partial<RoundState>) => states.set(round, { ...state(round), ...changes });

  const age = ({ freshFrom }: RoundState) => clock.monotonic() - freshFrom;
  const markAge = ({ expectedEvery, markAfter }: RoundState) => markAfter * expectedEvery;
  const withdrawAge = (round: RoundState) =>
    Math.max(markAge(round), Math.min(staleness.withdrawAfter * round.expectedEvery, staleness.withdrawAtMost));
  const tryingFor = ({ freshFrom, tryingFrom }: RoundState) => clock.monotonic() - Math.max(freshFrom, tryingFrom);
  /** Old data becomes stale only after a failed or slow attempt: after a restart, the first attempt may succeed. */
  const isStale = (state: RoundState) =>
    state.idle !== 'absent' &&
    age(state) > markAge(state) &&
    (state.consecutiveFailures > 0 || tryingFor(state) > markAge(state));
  // This process has read the shown facts, so time before its start does not count.
  const shownFor = ({ freshFrom }: RoundState) => clock.monotonic() - Math.max(freshFrom, bornAt);
  const tooOld = () =>
    states.values().some(state => !auxiliary.includes(state.round) && shownFor(state) > withdrawAge(state));

  const visible = (): Visible<Facts> => ({ now: tooOld() ? undefined : facts, committed });

  return {
    account,
    collector,
    isOptional,
    /** Records the start of an attempt. */
    started: (round: string): unknown => change(round, { retryAt: undefined }),
    /**
     * Sets the facts of a completed round, which may not be committed yet. `at`: start of the round (wall time). `partial`:
     * some rows were unreadable. `failedFilters`: all failing filters. `partial` and `failedFilters` are always shown together
     * with the facts.
     */
    observed(
      round: string,
      read: { at: number; facts: Facts; partial?: boolean; failedFilters?: readonly FailedFilter[] | undefined },
    ): void {
      const now = clock.monotonic();
      facts = read.facts;
      earlier = undefined;
      failedFilters = read.failedFilters ?? [];
      change(round, { dataAt: read.at, freshFrom: now, tryingFrom: now, partial: read.partial ?? false });
    },
    committed(newFacts: Facts | undefined): void {
      committed = newFacts;
    },
    succeeded(
      round: string,
      { durationSeconds, partial = false }: { durationSeconds: number; partial?: boolean },
    ): void {
      change(round, {
        success: true,
        complete: !partial && failedFilters.length === 0,
        partial,
        durationSeconds,
        consecutiveFailures: 0,
        failure: undefined,
        idle: undefined,
        retry: undefined,
        expectedEvery: Math.max(state(round).every, durationSeconds * 1000),
      });
    },
    failed(round: string, { reason, message, retry, retryAt, ...attempt }: Attempt): void {
      const consecutiveFailures = state(round).consecutiveFailures + 1;
      const failure = { reason, message };
      change(round, { ...attempt, success: false, consecutiveFailures, failure, idle: undefined, retry, retryAt });
    },
    /** Records a run that read nothing, which is neither a success nor a failure. */
    idled(round: string, why: Idle): void {
      if (why === 'absent') {
        [facts, earlier] = [undefined, undefined];
        change(round, { ...UNREAD, idle: why, freshFrom: clock.monotonic(), retry: PROBE_EVERY });
        return;
      }
      const known = state(round);
      // Data of a round that is not due does not age, unless the last attempt failed.
      const isAgeing = why === 'waiting' || known.consecutiveFailures > 0;
      const freshFrom = isAgeing ? known.freshFrom : clock.monotonic() - Math.min(age(known), known.expectedEvery);
      // A round that waits for a more frequent one is retried after the shortest interval, because its own interval is longer.
      const isLate = why === 'waiting' && known.every > shortest;
      change(round, { idle: why, freshFrom, retry: isLate ? shortest : undefined });
    },
    visible,
    /** Like `visible`, but falls back to the facts from before a reload. Returns the same object until the facts change. */
    shown(): Visible<Facts> {
      const now = tooOld() ? undefined : (facts ?? earlier);
      if (now !== shown.now || committed !== shown.committed) shown = { now, committed };
      return shown;
    },
    status: (): CollectorStatus => ({
      collector,
      withdrawn: (facts ?? earlier) !== undefined && tooOld(),
      ...(failedFilters.length > 0 && { failedFilters }),
      rounds: [...states.values()].map(state => {
        const { freshFrom: _, tryingFrom: _t, expectedEvery: _e, markAfter: _m, retry: _r, ...round } = state;
        return { ...round, stale: isStale(state) };
      }),
    }),
    /** Returns the state that the collector keeps after a reload. */
    inherit: (): Inherited<Facts> => ({ facts: facts ?? earlier, failedFilters, bornAt, rounds: new Map(states) }),
    /** Returns the values that determine the delay of the retry if the round fails next. */
    nextFailure: (round: string) => ({
      every: state(round).every,
      shortest,
      failures: state(round).consecutiveFailures + 1,
    }),
    retry: (round: string): number | undefined => state(round).retry,
    /** Returns how long the data has been stale while this or an earlier process tried to refresh it (ms). */
    staleFor: (round: string): number => Math.max(0, tryingFor(state(round)) - markAge(state(round))),
    /** Returns the time since the last complete round, or since the first attempt (ms). */
    age: (round: string): number => age(state(round)),
    freshness(): Readonly<Record<string, Freshness>> {
      const wall = (ms: number) => Math.round(clock.now() - ms);
      return Object.fromEntries(
        [...states.values()].map(state => {
          const { round, every, expectedEvery, consecutiveFailures, dataAt, idle } = state;
          const isTrying =
            (idle === undefined || idle === 'waiting') && (consecutiveFailures > 0 || dataAt === undefined);
          const took = expectedEvery > every ? expectedEvery : undefined;
          const tryingSince = isTrying ? wall(tryingFor(state)) : undefined;
          return [round, { completeAt: wall(age(state)), tryingSince, took }];
        }),
      );
    },
  };
}

export function accountStatus(account: string, states: readonly CollectorState[]): AccountStatus {
  const isUp = ({ rounds }: CollectorStatus) =>
    rounds.every(({ success, idle, stale }) => !stale && (success ?? idle !== undefined));
  const up = states.every(state => state.isOptional || isUp(state.status()));
  return { account, up, collectors: states.map(state => state.status()) };
}
