import { durationText } from '../kit/duration.ts';
import { plural, printable } from '../kit/text.ts';
import type { Missing, Optional, Step, Timeline } from './message.ts';

/** Describes the JSON form of messages, for the command line and the pages. */

interface DescribedMessage extends Timeline {
  readonly deadLetter: Optional<{
    readonly dlqId?: Optional<string>;
    readonly enteredAt?: Optional<string>;
    readonly responseStatus?: Optional<number>;
    readonly callbackState?: Optional<string>;
  }>;
}

/** Formats a time (ISO 8601, UTC) as `2026-11-23 23:20:00.084`. */
export const utcText = (iso: string) => iso.replace('T', ' ').replace('Z', '');

const between = (from: string, to: string) => durationText((Date.parse(to) - Date.parse(from)) / 1000);

const response = (status: number) => (status === 0 ? 'no response' : `status ${status}`);

const part = <T>(value: Optional<T>, toText: (value: T) => string): string[] =>
  value === undefined || value === null ? [] : [toText(value)];

/** Describes a step: the time since the first step, and its attempt, status, duration, next delivery and error. */
export function describeStep(
  { time, attempt, responseStatus, tookSeconds, nextDeliveryAt, error }: Step,
  [first]: readonly Step[],
): { readonly after: string; readonly details: string } {
  const details = [
    ...part(attempt, number => `attempt ${number}`),
    ...part(responseStatus, response),
    ...part(tookSeconds, seconds => `took ${durationText(seconds)}`),
    ...part(nextDeliveryAt, due => `next delivery ${utcText(due)} (${between(time, due)} later)`),
    ...part(error, text => `error: ${text}`),
  ];
  return { after: between(first?.time ?? time, time), details: details.join(', ') };
}

const MISSING: Readonly<Record<Missing, string>> = {
  all: 'The event log no longer contains any event of this message.',
  creation: 'The event log no longer contains the creation of this message. Earlier attempts are unknown.',
  end: 'The event log no longer contains the end of this message.',
  unread: 'The message has too many events. Only the newest were read.',
};

function result({ outcome, durationSeconds, attempts, events, missing }: DescribedMessage): string[] {
  if (events.length === 0 || missing.includes('end')) return [];
  const next = part(events.at(-1)?.nextDeliveryAt, due => `; the next delivery is due at ${utcText(due)}`).join('');
  const count = `${missing.length > 0 ? 'at least ' : ''}${plural(attempts, 'attempt')}`;
  const after = part(durationSeconds, seconds => `${durationText(seconds)} and `).join('');
  return [outcome ? `Result: ${outcome} after ${after}${count}.` : `In flight after ${count}${next}.`];
}

function deadLetter({ deadLetter: entry }: DescribedMessage): string[] {
  if (!entry) return ['Not in the dead-letter queue.'];
  const since = part(entry.enteredAt, time => ` since ${utcText(time)}`).join('');
  const id = part(entry.dlqId, id => `, dlqId ${id}`).join('');
  const last = part(entry.responseStatus, status => `, last attempt: ${response(status)}`).join('');
  return [
    `In the dead-letter queue${since}${id}${last}.`,
    ...part(entry.callbackState, state => `Failure callback: ${state}.`),
  ];
}

/** Returns sentences about the result, the dead letter and missing events. Control characters are replaced. */
export const describeMessage = (message: DescribedMessage): string[] =>
  [...result(message), ...deadLetter(message), ...message.missing.map(missing => MISSING[missing])].map(printable);

/** Returns sentences about doubtful or missing rows of a list. */
export const describeQuality = (isProven: boolean, rejected: number, incomplete: number): string[] => [
  ...(isProven ? [] : ['a filter is unproven: some rows are unreadable or lack the filtered field']),
  ...(rejected === 0 ? [] : [`${plural(rejected, 'unreadable row')} missing`]),
  ...(incomplete === 0 ? [] : [`unreadable values missing in ${plural(incomplete, 'row')}`]),
];
