import type { AccountStatus, CollectorStatus, RoundStatus } from '../model/status.ts';
import type { StalenessOptions } from './options.ts';

/** The latest facts of one collector for one account, and how true they are. Facts are replaced whole, never changed. */
export interface Slot {
  readonly account: string;
  readonly collector: string;
  /** A complete round, begun at `at`, whose changes are committed. */
  succeeded(round: string, end: { at: number; durationSeconds: number; facts: unknown }): void;
  failed(round: string, end: { durationSeconds: number; complete: boolean; reason: string; message: string }): void;
  /** The facts that may be shown at `now`; undefined before the first complete round, and when they have become too old. */
  visible(now: number): unknown;
  status(now: number): CollectorStatus;
}

type RoundState = Omit<RoundStatus, 'stale'>;

export function createSlot(
  { account, collector }: Pick<Slot, 'account' | 'collector'>,
  intervals: Readonly<Record<string, number>>,
  staleness: StalenessOptions,
  startedAt: number,
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
    });
  }
  const state = (round: string) => rounds.get(round) as RoundState;

  /** A wall clock that was set back makes data look as old as the step, until the next complete round. */
  const age = ({ dataAt }: RoundState, now: number) => Math.abs(now - (dataAt ?? startedAt));
  const markAge = ({ every }: RoundState) => staleness.markAfter * every;
  const withdrawAge = (round: RoundState) =>
    Math.max(markAge(round), Math.min(staleness.withdrawAfter * round.every, staleness.withdrawAtMost));
  const withdrawn = (now: number) => rounds.values().some(round => age(round, now) > withdrawAge(round));

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
    visible: now => (withdrawn(now) ? undefined : facts),
    status: now => ({
      collector,
      withdrawn: withdrawn(now),
      rounds: [...rounds.values()].map(round => ({ ...round, stale: age(round, now) > markAge(round) })),
    }),
  };
}

/** What an account's collectors say together. */
export function accountStatus(account: string, slots: readonly Slot[], now: number): AccountStatus {
  const statuses = slots.map(slot => slot.status(now));
  return {
    account,
    up: statuses.every(({ rounds }) => rounds.every(({ success }) => success === true)),
    collectors: statuses,
  };
}
