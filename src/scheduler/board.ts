import type { Clock } from '../kit/clock.ts';
import type { AccountStatus, CollectorStatus, RoundStatus } from '../model/status.ts';
import type { StalenessOptions } from './options.ts';

/** The latest facts of one collector for one account, and how true they are. Facts are replaced whole, never changed. */
export interface Slot {
  readonly account: string;
  readonly collector: string;
  /** A complete round, begun at wall time `at`, whose changes are committed. */
  succeeded(round: string, end: { at: number; durationSeconds: number; facts: unknown }): void;
  failed(round: string, end: { durationSeconds: number; complete: boolean; reason: string; message: string }): void;
  /** The facts that may be shown; undefined before the first complete round, and when they have become too old. */
  visible(): unknown;
  status(): CollectorStatus;
}

interface RoundState extends Omit<RoundStatus, 'stale'> {
  /** When the last complete round ended, or the agent began, on the monotonic clock: wall time may step. */
  readonly freshFrom: number;
  /** Milliseconds that a complete round may take to come again: the interval, or the last one's duration where that is longer. */
  readonly expectedEvery: number;
}

export function createSlot(
  { account, collector }: Pick<Slot, 'account' | 'collector'>,
  intervals: Readonly<Record<string, number>>,
  staleness: StalenessOptions,
  clock: Pick<Clock, 'monotonic'>,
): Slot {
  let facts: unknown;
  const rounds = new Map<string, RoundState>();
  for (const [round, every] of Object.entries(intervals)) {
    rounds.set(round, {
      round,
      every,
      success: undefined,
      complete: undefined,
      durationSeconds: undefined,
      dataAt: undefined,
      consecutiveFailures: 0,
      failure: undefined,
      freshFrom: clock.monotonic(),
      expectedEvery: every,
    });
  }
  const state = (round: string) => rounds.get(round) as RoundState;

  const age = ({ freshFrom }: RoundState) => clock.monotonic() - freshFrom;
  const markAge = ({ expectedEvery }: RoundState) => staleness.markAfter * expectedEvery;
  const withdrawAge = (round: RoundState) =>
    Math.max(markAge(round), Math.min(staleness.withdrawAfter * round.expectedEvery, staleness.withdrawAtMost));
  const tooOld = () => rounds.values().some(round => age(round) > withdrawAge(round));

  return {
    account,
    collector,
    succeeded(round, { at, durationSeconds, facts: newFacts }) {
      facts = newFacts;
      rounds.set(round, {
        ...state(round),
        success: true,
        complete: true,
        durationSeconds,
        dataAt: at,
        consecutiveFailures: 0,
        failure: undefined,
        freshFrom: clock.monotonic(),
        expectedEvery: Math.max(state(round).every, durationSeconds * 1000),
      });
    },
    failed(round, { durationSeconds, complete, reason, message }) {
      rounds.set(round, {
        ...state(round),
        success: false,
        complete,
        durationSeconds,
        consecutiveFailures: state(round).consecutiveFailures + 1,
        failure: { reason, message },
      });
    },
    visible: () => (tooOld() ? undefined : facts),
    status: () => ({
      collector,
      withdrawn: facts !== undefined && tooOld(),
      rounds: [...rounds.values()].map(state => {
        const { freshFrom: _from, expectedEvery: _every, ...round } = state;
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
