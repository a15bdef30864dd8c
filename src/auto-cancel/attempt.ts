import { type Clock, withDeadline } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { CancelAnswer, FinalOutcome, JournalEntry } from '../model/journal.ts';
import { isGuardFailed } from '../store/store.ts';
import type { Reader, Writer } from '../upstream/api.ts';
import { type Brake, SEND_WITHIN, SENDING_ENDED, sendingUntil } from './brake.ts';
import type { Journal } from './journal.ts';
import { endLine } from './journal-state.ts';
import type { Judged } from './judge.ts';
import { lookAgain, lookForEvents, stateOf } from './look.ts';
import type { Moments, Progress } from './moments.ts';
import { abortReason, changeSince, type LastLook, skipReason } from './stages.ts';

export interface AttemptDeps {
  readonly journal: Journal;
  readonly moments: Moments;
  readonly brake: Pick<Brake, 'guard' | 'read'>;
  readonly lastReader: Reader;
  readonly writer: Writer;
  readonly clock: Clock;
  readonly log: Log;
  readonly policy: string;
  readonly replica?: string | undefined;
}

/** How an attempt went: not made, and why; or sent, with what ended it, if anything did. */
export type Attempted =
  | { readonly made: false; readonly reason: string }
  | { readonly made: true; readonly answer: CancelAnswer; readonly outcome: FinalOutcome | undefined };

/** Milliseconds before the end of a lease in which nothing is under way any more: clocks run at different rates, and bytes take time. */
export const LEASE_MARGIN = 1000;

/** Milliseconds after the final check began in which the cancel may be sent: older data may be outdated. */
const LOOK_HOLDS = 120_000;

/** Reads the entry once more, and where that is as it was judged and events count, its newest event. Throws only when the signal is aborted. */
async function lookOnce(
  judged: Judged,
  { lastReader, clock, log }: Pick<AttemptDeps, 'lastReader' | 'clock' | 'log'>,
  signal: AbortSignal,
): Promise<LastLook | 'failed'> {
  try {
    const found = await lookAgain(lastReader, judged.target, signal);
    const look = { state: stateOf(found), callbackMessageId: found?.callbackMessageId, silence: undefined };
    if (!judged.silence || changeSince(judged, look)) return look;
    const { entry } = judged.sighting;
    return { ...look, silence: await lookForEvents(lastReader, entry, { now: clock.now, log }, signal) };
  } catch (error) {
    if (signal.aborted) throw error;
    return 'failed';
  }
}

/** What an answer alone settles. What it does not is read back. */
function outcomeOf({ kind }: CancelAnswer, isBlind: boolean): FinalOutcome | undefined {
  if (kind === 'missing') return 'gone';
  if (kind === 'denied') return 'rejected';
  if (kind === 'limited' || kind === 'not_sent') return 'expired';
  if (!isBlind) return undefined;
  if (kind === 'accepted') return 'accepted_unverified';
  return kind === 'refused' ? 'not_in_progress' : 'unknown_final';
}

/**
 * One attempt to cancel: a final check, the committed intent, at most one request, the committed answer. Stages are checked
 * again after each wait. An intent without an outcome, whatever killed the process, is read back and never sent again. Throws
 * StoreError.
 */
export async function attempt(
  judged: Judged,
  decision: Pick<Progress, 'walkAt' | 'usesBefore'>,
  { journal, moments, brake, writer, clock, policy, replica, ...deps }: AttemptDeps,
  signal: AbortSignal,
): Promise<Attempted> {
  const { action, target, rule, mode, finding } = judged;
  if (mode === 'plan') return { made: false, reason: 'plan' };
  const { stamp } = moments.time;
  const lookedAt = clock.monotonic();
  const look = await lookOnce(judged, { clock, ...deps }, signal);
  const momentNow = () =>
    moments.callback(judged, { ...decision, look, isLate: clock.monotonic() - lookedAt > LOOK_HOLDS });
  const changed = look === 'failed' ? 'look_failed' : changeSince(judged, look);
  const skipped = changed ?? skipReason(momentNow());
  if (skipped) return { made: false, reason: skipped };
  const known = journal.state.actions.get(action);
  const number = (known?.attempts.length ?? 0) + 1;
  const at = stamp();
  const sendUntil = clock.monotonic() + SEND_WITHIN;
  const blind = rule.evidence === 'blind';
  const { approvedBy } = momentNow().own ?? {};
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
  // It ends before another replica can hold the account and read back what became of it.
  const held = (moments.account().lease?.left ?? Number.POSITIVE_INFINITY) - LEASE_MARGIN;
  // A stopped process runs no timer: after it continues, the request may be written before its deadline is noticed.
  const abort = () => (clock.monotonic() >= sendUntil ? 'too_late' : abortReason(momentNow()));
  const why = abort();
  const answer: CancelAnswer = why
    ? { kind: 'not_sent', why }
    : await withDeadline(Math.min(left, held), signal, deadline => writer.cancel(target.id, deadline, abort));
  const alone = outcomeOf(answer, blind);
  // What an earlier attempt did is still to be read.
  const outcome = alone === 'expired' && known?.isOpen ? undefined : alone;
  const lines: JournalEntry[] = [{ at: stamp(), action, step: 'answered', attempt: number, answer }];
  if (outcome) lines.push(endLine(ref, outcome, `answer_${answer.kind}`, stamp()));
  if (answer.kind === 'denied') {
    const reason = `the service refused a cancel with ${answer.status}`;
    lines.push({ at: stamp(), step: 'breaker_opened', breaker: 'errors', reason });
  }
  await journal.append(lines, { changes: [SENDING_ENDED] });
  return { made: true, answer, outcome };
}
