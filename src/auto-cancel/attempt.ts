import { withDeadline } from '../kit/clock.ts';
import type { Runtime } from '../kit/runtime.ts';
import type { CancelResponse, FinalOutcome, JournalEntry } from '../model/journal.ts';
import { isGuardFailed } from '../store/store.ts';
import type { Reader, Writer } from '../upstream/api.ts';
import { type Brake, SEND_WITHIN, SENDING_ENDED, sendingUntil } from './brake.ts';
import type { Contexts, Progress } from './context.ts';
import type { EvaluatedCallback } from './evaluate.ts';
import type { Journal } from './journal.ts';
import { endLine, isWithoutEffect } from './journal-state.ts';
import { callbackStateOf, lookUpEvents, lookUpNextDelivery, rereadEntry } from './look-up.ts';
import { abortReason, changeSince, type FinalCheck, type NextDelivery, skipReason } from './stages.ts';

export interface AttemptDeps extends Pick<Runtime, 'clock' | 'log'> {
  readonly journal: Journal;
  readonly contexts: Contexts;
  readonly brake: Pick<Brake, 'guard' | 'read'>;
  /** Reader for the final check and the look-up of the next delivery before a cancel. */
  readonly lastReader: Reader;
  readonly writer: Writer;
  readonly policy: string;
  readonly replica?: string | undefined;
}

/** Result of an attempt. `reason`: why no attempt was made. */
export type AttemptResult =
  | { readonly made: false; readonly reason: string }
  | { readonly made: true; readonly answer: CancelResponse; readonly outcome: FinalOutcome | undefined };

/** Safety margin at the end of a lease (ms): clocks run at different rates, and sending takes time. */
export const LEASE_MARGIN = 1000;

/** Maximum age of the final check when the cancel is sent (ms). */
const FINAL_CHECK_VALID = 120_000;

/** Rereads the entry and, if the rule needs it, its newest event. Throws only if the signal is aborted. */
async function checkFinally(
  evaluated: EvaluatedCallback,
  { lastReader, clock, log }: Pick<AttemptDeps, 'lastReader' | 'clock' | 'log'>,
  signal: AbortSignal,
): Promise<FinalCheck | 'failed'> {
  try {
    const found = await rereadEntry(lastReader, evaluated.target, signal);
    const look = { state: callbackStateOf(found), callbackMessageId: found?.callbackMessageId, silence: undefined };
    if (!evaluated.silence || changeSince(evaluated, look)) return look;
    const { entry } = evaluated.sighting;
    return { ...look, silence: await lookUpEvents(lastReader, entry, { now: clock.now, log }, signal) };
  } catch (error) {
    if (signal.aborted) throw error;
    return 'failed';
  }
}

/** Returns the outcome that a response proves; undefined if the callback must be read again. */
function outcomeOf(answer: CancelResponse, isBlind: boolean): FinalOutcome | undefined {
  const { kind } = answer;
  if (kind === 'missing') return 'gone';
  if (isWithoutEffect(answer)) return 'expired';
  if (kind === 'denied') return 'rejected';
  if (!isBlind) return undefined;
  if (kind === 'accepted') return 'accepted_unverified';
  return kind === 'refused' ? 'not_in_progress' : 'unknown_final';
}

/**
 * Makes one attempt: final check, look-up of the next delivery, intent, request, response. The intent is committed before the
 * request, so that a process that restarts in between reads the callback again. Throws StoreError.
 */
export async function attempt(
  evaluated: EvaluatedCallback,
  decision: Pick<Progress, 'walkAt' | 'usesBefore'>,
  { journal, contexts, brake, writer, clock, policy, replica, ...deps }: AttemptDeps,
  signal: AbortSignal,
): Promise<AttemptResult> {
  const { action, target, rule, mode, finding } = evaluated;
  if (mode === 'plan') return { made: false, reason: 'plan' };
  const { stamp } = contexts.time;
  const lookedAt = clock.monotonic();
  const look = await checkFinally(evaluated, { clock, ...deps }, signal);
  let next: NextDelivery | undefined;
  const contextNow = () =>
    contexts.callback(evaluated, { ...decision, look, next, isLate: clock.monotonic() - lookedAt > FINAL_CHECK_VALID });
  const changed = look === 'failed' ? 'look_failed' : changeSince(evaluated, look);
  let skipped = changed ?? skipReason(contextNow());
  if (skipped) return { made: false, reason: skipped };
  next = await lookUpNextDelivery(deps.lastReader, evaluated, signal);
  skipped = skipReason(contextNow());
  if (skipped) return { made: false, reason: skipped };
  const known = journal.state.actions.get(action);
  const number = (known?.attempts.length ?? 0) + 1;
  const at = stamp();
  const sendUntil = clock.monotonic() + SEND_WITHIN;
  const blind = rule.evidence === 'blind';
  const { approvedBy } = contextNow().own ?? {};
  const ref = { action, rule: rule.name, mode, target };
  const evidence = finding.predicates;
  const sendBy = at + SEND_WITHIN;
  try {
    await journal.append(
      [{ at, step: 'intent', attempt: number, ...ref, mode, blind, evidence, sendBy, policy, replica, approvedBy }],
      { changes: [sendingUntil(clock.now() + SEND_WITHIN)], guard: brake.guard() },
    );
  } catch (error) {
    if (!isGuardFailed(error)) throw error;
    await brake.read();
    return { made: false, reason: 'paused' };
  }
  await brake.read();
  const left = sendUntil - clock.monotonic();
  // The request must end before another process can acquire the lease.
  const held = (contexts.account().lease?.left ?? Number.POSITIVE_INFINITY) - LEASE_MARGIN;
  // A suspended process runs no timers: check the deadline again.
  const abort = () => (clock.monotonic() >= sendUntil ? 'too_late' : abortReason(contextNow()));
  const why = abort();
  const answer: CancelResponse = why
    ? { kind: 'not_sent', why }
    : await withDeadline(Math.min(left, held), signal, deadline => writer.cancel(target.id, deadline, abort));
  const proven = outcomeOf(answer, blind);
  const outcome = proven === 'expired' && known?.isOpen ? undefined : proven;
  const lines: JournalEntry[] = [{ at: stamp(), action, step: 'answered', attempt: number, answer }];
  if (outcome) lines.push(endLine(ref, outcome, `answer_${answer.kind}`, stamp()));
  if (answer.kind === 'denied') {
    const reason = `the service refused a cancel with ${answer.status}`;
    lines.push({ at: stamp(), step: 'breaker_opened', breaker: 'errors', reason });
  }
  await journal.append(lines, { changes: [SENDING_ENDED] });
  return { made: true, answer, outcome };
}
