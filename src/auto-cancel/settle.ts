import type { Clock } from '../kit/clock.ts';
import type { FinalOutcome } from '../model/journal.ts';
import type { Reader } from '../upstream/api.ts';
import { ending } from './attempt.ts';
import type { Journal } from './journal.ts';
import { type Action, attemptsThatCount } from './journal-state.ts';
import { lookAgain, stateOf } from './look.ts';

export interface SettleDeps {
  readonly journal: Journal;
  readonly reader: Reader;
  readonly clock: Pick<Clock, 'monotonic'>;
  /** The time for lines of the journal. */
  stamp(): number;
}

/** What is known of an action whose intent has no end. */
export type Settled =
  /** It has ended, or its end is written now. */
  | { readonly kind: 'ended'; readonly outcome: FinalOutcome }
  /** Looked at too early to tell, or the look failed. */
  | { readonly kind: 'waiting' }
  /** Every look says that the callback is still in progress: it may be attempted once more, judged anew. */
  | { readonly kind: 'still_in_progress' };

/** Reads back what became of cancels, and writes it down. Never sends one. */
export interface Settling {
  /** Looks at one open action if a look is due. `isWalked`: a complete walk has begun after the last look. */
  settle(action: Action, isWalked: boolean, signal: AbortSignal): Promise<Settled>;
}

/** Milliseconds after the answer at which it is read back; after the last one, at each complete walk. */
const LOOKS_AFTER = [0, 5_000, 15_000, 60_000];
/** Milliseconds until it is looked at again where no walk comes. */
const WITHOUT_WALKS = 3_600_000;
/** Milliseconds until a look that failed is made again. */
const LOOK_AGAIN = 60_000;
/** Cancels of one episode that may have reached the service. */
const MOST_ATTEMPTS = 2;

interface Looks {
  /** Of which attempt. */
  readonly attempt: number;
  /** When counting began, on the monotonic clock: at the answer, or at the start of the process. */
  readonly from: number;
  made: number;
  notBefore: number;
}

export function createSettling({ journal, reader, clock, stamp }: SettleDeps): Settling {
  const looks = new Map<string, Looks>();

  function looksOf({ id, attempts }: Action): Looks {
    const attempt = attempts.length;
    const known = looks.get(id);
    if (known?.attempt === attempt) return known;
    const from = clock.monotonic();
    const begun = { attempt, from, made: 0, notBefore: from };
    looks.set(id, begun);
    return begun;
  }

  async function end(action: Action, outcome: FinalOutcome, reason: string, unproven = false): Promise<Settled> {
    const line = ending({ ...action, action: action.id, rule: { name: action.rule } }, outcome, reason, stamp());
    await journal.append([unproven ? ({ ...line, unproven } as typeof line) : line]);
    looks.delete(action.id);
    return { kind: 'ended', outcome };
  }

  return {
    async settle(action, isWalked, signal) {
      const last = action.attempts.at(-1);
      const answer = last?.answer;
      // The process died between the intent and the answer: nobody knows.
      if (action.blind) return end(action, 'unknown_final', 'no_answer');
      const plan = looksOf(action);
      const isExhausted = plan.made >= LOOKS_AFTER.length;
      const isLate = clock.monotonic() >= plan.notBefore + (isExhausted ? WITHOUT_WALKS : 0);
      const due = isLate || (isExhausted && isWalked && clock.monotonic() >= plan.notBefore);
      if (!due) return isExhausted ? { kind: 'still_in_progress' } : { kind: 'waiting' };
      let state: ReturnType<typeof stateOf>;
      try {
        state = stateOf(await lookAgain(reader, action.target, signal));
      } catch (error) {
        if (signal.aborted) throw error;
        plan.notBefore = clock.monotonic() + LOOK_AGAIN;
        return { kind: 'waiting' };
      }
      if (state === 'canceled') return end(action, 'confirmed', 'read_canceled', answer?.kind !== 'accepted');
      if (state === 'success' || state === 'fail') return end(action, 'superseded', `read_${state}`);
      if (state === 'gone') return end(action, 'gone', 'not_listed');
      plan.made += 1;
      const next = LOOKS_AFTER[plan.made];
      plan.notBefore = next === undefined ? clock.monotonic() : plan.from + next;
      if (plan.made < LOOKS_AFTER.length) return { kind: 'waiting' };
      if (state !== 'in_progress') return end(action, 'gave_up', `read_${state}`);
      if (answer?.kind === 'refused') return end(action, 'gave_up', 'refused_while_in_progress');
      if (attemptsThatCount(action) >= MOST_ATTEMPTS) return end(action, 'gave_up', 'still_in_progress');
      return { kind: 'still_in_progress' };
    },
  };
}
