import { longText } from '../kit/duration.ts';
import { printable } from '../kit/text.ts';
import { OBSERVED_FOR } from '../metrics/thresholds.ts';
import type { FinalOutcome, JournalEntry, PlanOutcome } from '../model/journal.ts';
import { STAGES } from './stages.ts';

/** Completions of "Nothing is cancelled because …" by final outcome, or "The planned callback: …" by plan outcome. */
export const ENDED: Readonly<Record<FinalOutcome | PlanOutcome, string>> = {
  planned: 'the rule only plans cancels',
  confirmed: 'the service reports the callback as cancelled',
  superseded: 'the callback ended by itself before the cancel took effect',
  gone: 'the service no longer lists the entry',
  rejected: 'the service refused the cancel',
  gave_up: 'the callback is still in progress after the last attempt',
  expired: 'no cancel took effect; a new evaluation may lead to another attempt',
  not_in_progress: 'the service reported that the callback was not in progress',
  accepted_unverified: 'the service accepted the cancel, and the result cannot be read back',
  unknown_final: 'it is unknown whether the service cancelled the callback',
  success: 'the callback ended by itself with success',
  failed: 'the callback ended by itself with failure',
  in_progress: `the callback was still in progress ${longText(OBSERVED_FOR)} later`,
  unknown: 'it is unknown how the callback would have ended',
};

/** Completions of "Nothing is cancelled because …" by reason or outcome. */
const SKIPPED: ReadonlyMap<string, string> = new Map([
  // If stages share a reason, the first one's text is used.
  ...STAGES.filter(({ name }) => name !== 'verdict')
    .toReversed()
    .flatMap(({ reasons }) => Object.entries(reasons)),
  ...Object.entries(ENDED),
]);

/** Returns a sentence that explains the `held` field of an `Explanation`. */
export function skipText(held: string): string {
  return `Nothing is cancelled because ${(SKIPPED.get(held) ?? held).replaceAll('`', '')}.`;
}

/** Formats a journal line without its step. */
export function detailOf(line: JournalEntry): string {
  switch (line.step) {
    case 'marked':
    case 'awaiting_approval':
      return `until ${new Date(line.until).toISOString()}`;
    case 'cleared':
      return line.reason;
    case 'approved':
      return `by ${line.by}`;
    case 'intent':
      return `${line.mode}, attempt ${line.attempt}`;
    case 'answered':
      return 'status' in line.answer ? `${line.answer.kind} ${line.answer.status ?? ''}`.trim() : line.answer.why;
    case 'ended':
    case 'observed':
      return `${line.outcome} (${line.reason})`;
    case 'paused':
    case 'resumed':
      return `by ${line.by}: ${line.reason}`;
    case 'breaker_opened':
      return `${line.breaker}: ${line.reason}`;
    case 'order_refused':
      return `${line.kind} of ${line.about} by ${line.by}: ${line.reason}`;
    case 'breaker_reset':
      return `${line.breaker} by ${line.by}: ${line.reason}`;
  }
}

/** Formats a journal line for pages and the API. */
export function sentenceOf(line: JournalEntry): string {
  const detail = 'outcome' in line ? `${ENDED[line.outcome]} (${line.reason})` : detailOf(line);
  return printable(`${line.step.replaceAll('_', ' ')}: ${detail}`);
}
