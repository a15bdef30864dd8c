import type { Clock } from '../kit/clock.ts';
import type { FinalOutcome } from '../model/journal.ts';
import type { Reader } from '../upstream/api.ts';
import { SENDING_ENDED } from './brake.ts';
import type { DecisionLog } from './decision-log.ts';
import type { Journal } from './journal.ts';
import { type Action, attemptsThatCount, endLine, refOf } from './journal-state.ts';
import { lookAgain, stateOf } from './look.ts';

export interface SettleDeps {
  readonly journal: Journal;
  readonly reader: Reader;
  readonly decisions: Pick<DecisionLog, 'ended'>;
  readonly clock: Pick<Clock, 'monotonic'>;
  stamp(): number;
}

/** Times after the response to read back at (ms); later at each complete walk. */
const LOOKS_AFTER = [0, 5_000, 15_000, 60_000];
/** Time to the next read-back without a walk (ms). */
const WITHOUT_WALKS = 3_600_000;
/** Time to the next attempt after a failed read-back (ms). */
const LOOK_AGAIN = 60_000;
/** Maximum number of cancels per episode that may have reached the service. */
const MOST_ATTEMPTS = 2;

interface Looks {
  readonly attempt: number;
  /** Monotonic time of the response, or of the process start. */
  readonly from: number;
  made: number;
  notBefore: number;
}

/** Reads cancels back and records their outcomes. Never sends one. */
export type Settling = ReturnType<typeof createSettling>;

export function createSettling({ journal, reader, decisions, clock, stamp }: SettleDeps) {
  const looks = new Map<string, Looks>();
  let retriable = new Set<string>();

  function looksOf({ id, attempts }: Action): Looks {
    const attempt = attempts.length;
    const known = looks.get(id);
    if (known?.attempt === attempt) return known;
    const from = clock.monotonic();
    const begun = { attempt, from, made: 0, notBefore: from };
    looks.set(id, begun);
    return begun;
  }

  async function end(action: Action, outcome: FinalOutcome, reason: string, unproven = false): Promise<void> {
    const ref = refOf(action);
    const line = endLine(ref, outcome, reason, stamp());
    // A process that died left the row behind; requests and read-backs of an account never overlap.
    await journal.append([unproven ? { ...line, unproven } : line], { changes: [SENDING_ENDED] });
    looks.delete(action.id);
    decisions.ended(ref, outcome);
  }

  /** Reads an action back if that is due. Returns whether it may be attempted once more. */
  async function settle(action: Action, isWalked: boolean, signal: AbortSignal): Promise<boolean> {
    const answer = action.attempts.at(-1)?.answer;
    const done = (...how: [outcome: FinalOutcome, reason: string, unproven?: boolean]) =>
      end(action, ...how).then(() => false);
    // The process died between the intent and the answer.
    if (action.blind) return done('unknown_final', 'no_answer');
    const plan = looksOf(action);
    const isExhausted = plan.made >= LOOKS_AFTER.length;
    const isLate = clock.monotonic() >= plan.notBefore + (isExhausted ? WITHOUT_WALKS : 0);
    const isDue = isLate || (isExhausted && isWalked && clock.monotonic() >= plan.notBefore);
    if (!isDue) return isExhausted;
    let state: ReturnType<typeof stateOf>;
    try {
      state = stateOf(await lookAgain(reader, action.target, signal));
    } catch (error) {
      if (signal.aborted) throw error;
      plan.notBefore = clock.monotonic() + LOOK_AGAIN;
      return false;
    }
    if (state === 'canceled') return done('confirmed', 'read_canceled', answer?.kind !== 'accepted');
    if (state === 'success' || state === 'fail') return done('superseded', `read_${state}`);
    if (state === 'gone') return done('gone', 'not_listed');
    plan.made += 1;
    const next = LOOKS_AFTER[plan.made];
    plan.notBefore = next === undefined ? clock.monotonic() : plan.from + next;
    if (plan.made < LOOKS_AFTER.length) return false;
    if (state !== 'in_progress') return done('gave_up', `read_${state}`);
    if (answer?.kind === 'refused') return done('gave_up', 'refused_while_in_progress');
    if (attemptsThatCount(action) >= MOST_ATTEMPTS) return done('gave_up', 'still_in_progress');
    return true;
  }

  return {
    /** Reads each open action back that is due. `isWalked`: a complete walk has started since the last read-back. */
    async readBack(isWalked: boolean, signal: AbortSignal): Promise<void> {
      const open = [...journal.state.actions.values()].filter(({ isOpen }) => isOpen);
      retriable = new Set();
      for (const action of open) if (await settle(action, isWalked, signal)) retriable.add(action.id);
    },
    /** Whether every read-back of an open action found it in progress: it may be attempted once more after a new evaluation. */
    mayRetry: (action: string): boolean => retriable.has(action),
    /** Gives up retriable actions whose episode is not in `judged`: it has ended, so a callback in progress is another run. */
    async giveUpLost(judged: ReadonlySet<string>): Promise<void> {
      for (const id of retriable) {
        const action = journal.state.actions.get(id);
        if (action?.isOpen && !judged.has(id)) await end(action, 'gave_up', 'not_tracked');
      }
    },
    end,
  };
}
