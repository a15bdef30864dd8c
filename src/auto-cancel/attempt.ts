import { type Clock, withDeadline } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Silence } from '../model/callback.ts';
import type { Finding } from '../model/finding.ts';
import type { CancelAnswer, FinalOutcome, JournalEntry } from '../model/journal.ts';
import type { Reader, Writer } from '../upstream/api.ts';
import type { Judged } from './candidates.ts';
import type { Journal } from './journal.ts';
import { lookAgain, lookForEvents, stateOf } from './look.ts';

export interface AttemptDeps {
  readonly journal: Journal;
  /** For the last look. */
  readonly reader: Reader;
  readonly writer: Writer;
  readonly clock: Clock;
  readonly log: Log;
  /** The time for lines of the journal. */
  stamp(): number;
  /** Hash of the rules. */
  readonly policy: string;
  /** Who approved; undefined where that holds no longer, or was for another rule. */
  readonly approvedBy: string | undefined;
  judge(silence: Silence): Finding;
  /** Why nothing may be sent, as one word, asked before the intent is written. */
  whyNot(): string | undefined;
  /** The same of what may change after that, asked at the very moment of the request. */
  stop(): string | undefined;
}

/** How an attempt went: not made, and why; or sent, with what ended it, if anything did. */
export type Attempted =
  | { readonly made: false; readonly reason: string }
  | { readonly made: true; readonly answer: CancelAnswer; readonly outcome: FinalOutcome | undefined };

/** Milliseconds after its intent in which a cancel may be sent: it goes at once or not at all. */
const SEND_WITHIN = 30_000;

/** Milliseconds after the last look began in which the cancel may be sent: what is older shows what was. */
const LOOK_HOLDS = 120_000;

/** Just before: is the entry still what was judged? One word when not. */
async function changeSince({ sighting, target, rule }: Judged, reader: Reader, signal: AbortSignal) {
  const look = await lookAgain(reader, target, signal);
  const state = stateOf(look);
  if (state !== (rule.evidence === 'blind' ? 'unreported' : 'in_progress')) return `now_${state}`;
  const isSame = look.kind === 'listed' && look.entry.callbackMessageId === sighting.entry.callbackMessageId;
  return isSame ? undefined : 'another_episode';
}

/** Just before: is the event log as silent as it was? One word when not. */
async function eventSince(
  { silence: before, sighting }: Judged,
  { reader, clock, log, judge }: AttemptDeps,
  signal: AbortSignal,
) {
  if (!before) return undefined;
  const silence = await lookForEvents(reader, sighting.entry, { now: clock.now, log }, signal);
  const { verdict, reason } = judge(silence);
  if (verdict !== 'stuck') return reason;
  return silence.lastEventAt === before.lastEventAt ? undefined : 'another_event';
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
 * One attempt to cancel: a last look, the intent committed, one request at most, its answer committed. What was asked before
 * is asked again after each wait. Whatever kills the
 * process in between, an intent without an end is left, which is read back and never sent again. Throws StoreError before
 * anything is sent; a StoreError after it leaves the intent.
 */
export async function attempt(judged: Judged, deps: AttemptDeps, signal: AbortSignal): Promise<Attempted> {
  const { journal, reader, writer, clock, stamp, policy, approvedBy } = deps;
  const { action, target, rule, mode, finding } = judged;
  if (mode === 'plan') return { made: false, reason: 'plan' };
  const lookedAt = clock.monotonic();
  const tooLate = () => (clock.monotonic() - lookedAt > LOOK_HOLDS ? 'too_late' : undefined);
  try {
    const change = (await changeSince(judged, reader, signal)) ?? (await eventSince(judged, deps, signal));
    if (change) return { made: false, reason: change };
  } catch (error) {
    if (signal.aborted) throw error;
    return { made: false, reason: 'look_failed' };
  }
  const held = deps.whyNot() ?? tooLate();
  if (held) return { made: false, reason: held };
  const known = journal.state.actions.get(action);
  const number = (known?.attempts.length ?? 0) + 1;
  const at = stamp();
  const sendBy = at + SEND_WITHIN;
  const sendUntil = clock.monotonic() + SEND_WITHIN;
  const isBlind = rule.evidence === 'blind';
  await journal.append([
    {
      at,
      action,
      step: 'intent',
      attempt: number,
      rule: rule.name,
      mode,
      blind: isBlind,
      target,
      evidence: finding.predicates,
      sendBy,
      policy,
      approvedBy,
    },
  ]);
  const left = sendUntil - clock.monotonic();
  const stop = () => tooLate() ?? deps.stop();
  const why = left <= 0 ? 'too_late' : stop();
  const answer: CancelAnswer = why
    ? { kind: 'not_sent', why }
    : await withDeadline(left, signal, deadline => writer.cancel(target.id, deadline, stop));
  const alone = outcomeOf(answer, isBlind);
  // What an earlier attempt did is still to be read.
  const outcome = alone === 'expired' && known?.isOpen ? undefined : alone;
  const lines: JournalEntry[] = [{ at: stamp(), action, step: 'answered', attempt: number, answer }];
  if (outcome) lines.push(ending(judged, outcome, `answer_${answer.kind}`, stamp()));
  if (answer.kind === 'denied') {
    const reason = `the service refused a cancel with ${answer.status}`;
    lines.push({ at: stamp(), step: 'breaker_opened', breaker: 'errors', reason });
  }
  await journal.append(lines);
  return { made: true, answer, outcome };
}

/** The line that ends an action. */
export function ending(
  { action, rule, mode, target }: Pick<Judged, 'action' | 'mode' | 'target'> & { readonly rule: { name: string } },
  outcome: FinalOutcome,
  reason: string,
  at: number,
): JournalEntry {
  return { at, action, step: 'ended', outcome, rule: rule.name, mode, reason, target };
}
