import type { Clock } from '../kit/clock.ts';
import type { AccountStatus, CollectorStatus, RoundStatus } from '../model/status.ts';
import type { StalenessOptions } from './options.ts';

/** The facts that may be shown. The object is the same for as long as they are. */
export interface Visible {
  /** Of these, gauges: undefined before the first complete round, and when they have become too old. */
  readonly now: unknown;
  /** Of these, counters and histograms: the latest that are committed, however old. */
  readonly committed: unknown;
}

/** The latest facts of one collector for one account, and how true they are. Facts are replaced whole, never changed. */
export interface Slot {
  readonly account: string;
  readonly collector: string;
  /** A round, begun at wall time `at`, read to its end and found this; it may not be committed yet. */
  observed(round: string, found: { at: number; facts: unknown }): void;
  /** What is committed now: found before this process, or by a step of a round. */
  committed(facts: unknown): void;
  /** A round ended well. `partial`: there were rows that it could not read. */
  succeeded(round: string, end: { durationSeconds: number; partial?: boolean }): void;
  failed(round: string, end: { durationSeconds: number; complete: boolean; reason: string; message: string }): void;
  visible(): Visible;
  status(): CollectorStatus;
}

/** What the board needs to know of a round. */
export interface RoundOptions {
  /** Milliseconds between two starts. */
  readonly every: number;
  /** Missed intervals after which the data counts as stale, where that is fewer than usual. */
  readonly markAfter?: number | undefined;
}

interface RoundState extends Omit<RoundStatus, 'stale'> {
  readonly markAfter: number;
  /** When the last complete round ended, or the agent began, on the monotonic clock: wall time may step. */
  readonly freshFrom: number;
  /** Milliseconds that a complete round may take to come again: the interval, or the last one's duration where that is longer. */
  readonly expectedEvery: number;
}

interface SlotOptions extends Pick<Slot, 'account' | 'collector'> {
  /** Rounds that may fail for ever without the facts becoming too old. */
  readonly auxiliary?: readonly string[] | undefined;
}

export function createSlot(
  { account, collector, auxiliary = [] }: SlotOptions,
  rounds: Readonly<Record<string, RoundOptions>>,
  staleness: StalenessOptions,
  clock: Pick<Clock, 'monotonic'>,
): Slot {
  let facts: unknown;
  let committed: unknown;
  let shown: Visible = { now: undefined, committed: undefined };
  const states = new Map<string, RoundState>();
  for (const [round, { every, markAfter = staleness.markAfter }] of Object.entries(rounds)) {
    states.set(round, {
      round,
      every,
      markAfter: Math.min(markAfter, staleness.markAfter),
      success: undefined,
      complete: undefined,
      partial: false,
      durationSeconds: undefined,
      dataAt: undefined,
      consecutiveFailures: 0,
      failure: undefined,
      freshFrom: clock.monotonic(),
      expectedEvery: every,
    });
  }
  const state = (round: string) => states.get(round) as RoundState;

  const age = ({ freshFrom }: RoundState) => clock.monotonic() - freshFrom;
  const markAge = ({ expectedEvery, markAfter }: RoundState) => markAfter * expectedEvery;
  const withdrawAge = (round: RoundState) =>
    Math.max(markAge(round), Math.min(staleness.withdrawAfter * round.expectedEvery, staleness.withdrawAtMost));
  const tooOld = () =>
    states.values().some(state => !auxiliary.includes(state.round) && age(state) > withdrawAge(state));

  return {
    account,
    collector,
    observed(round, { at, facts: newFacts }) {
      facts = newFacts;
      states.set(round, { ...state(round), dataAt: at, freshFrom: clock.monotonic() });
    },
    committed(newFacts) {
      committed = newFacts;
    },
    succeeded(round, { durationSeconds, partial = false }) {
      states.set(round, {
        ...state(round),
        success: true,
        complete: !partial,
        partial,
        durationSeconds,
        consecutiveFailures: 0,
        failure: undefined,
        expectedEvery: Math.max(state(round).every, durationSeconds * 1000),
      });
    },
    failed(round, { durationSeconds, complete, reason, message }) {
      states.set(round, {
        ...state(round),
        success: false,
        complete,
        durationSeconds,
        consecutiveFailures: state(round).consecutiveFailures + 1,
        failure: { reason, message },
      });
    },
    visible() {
      const now = tooOld() ? undefined : facts;
      if (now !== shown.now || committed !== shown.committed) shown = { now, committed };
      return shown;
    },
    status: () => ({
      collector,
      withdrawn: facts !== undefined && tooOld(),
      rounds: [...states.values()].map(state => {
        const { freshFrom: _from, expectedEvery: _every, markAfter: _mark, ...round } = state;
        return { ...round, stale: age(state) > markAge(state) };
      }),
    }),
  };
}

/** What an account's collectors say together. */
export function accountStatus(account: string, slots: readonly Slot[]): AccountStatus {
  const statuses = slots.map(slot => slot.status());
  return {
    account,
    up: statuses.every(({ rounds }) => rounds.every(({ success }) => success === true)),
    collectors: statuses,
  };
}
