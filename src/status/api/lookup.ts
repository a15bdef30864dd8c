import { z } from 'zod';
import { parseDuration, parseInstant } from '../../kit/duration.ts';
import { FILTERS, type FilterName, filterError } from '../../lookup/lists.ts';
import { DeadLetterView } from './account.ts';
import { AccountName, Maybe, Num, Seconds, Time, wholeNumber } from './parts.ts';

/** Converts a time (UTC if it has no offset) or an age (`24h`) to ms since the Unix epoch; undefined if the text is neither. */
export function timeOrAge(text: string, now: number): number | undefined {
  const ago = parseDuration(text);
  const time = ago === undefined ? parseInstant(text) : now - ago;
  return time === undefined ? undefined : Math.max(0, time);
}

const MAX_LENGTH = 2000;

function filter(list: 'dlq' | 'events', name: FilterName) {
  const isTime = name === 'since' || name === 'until';
  const errorOf = (text: string) => {
    if (text.length > MAX_LENGTH) return `must have at most ${MAX_LENGTH} characters`;
    if (!isTime) return filterError(list, name, text);
    return timeOrAge(text, 0) === undefined ? 'must be a time, or a duration before now such as 2h' : undefined;
  };
  return z
    .string()
    .superRefine((text, context) => {
      const message = errorOf(text);
      if (message !== undefined) context.addIssue({ code: 'custom', message });
    })
    .optional()
    .describe(
      `Filter: ${FILTERS[name].help}${isTime ? ' (UTC if it has no offset), or a duration before now such as 2h' : ''}.`,
    );
}

function filtersOf(list: 'dlq' | 'events') {
  const names = (Object.keys(FILTERS) as FilterName[]).filter(name => FILTERS[name].lists.some(each => each === list));
  const shape = Object.fromEntries(names.map(name => [name, filter(list, name)]));
  return shape as Readonly<Record<FilterName, ReturnType<typeof filter>>>;
}

const ACCOUNT = AccountName.optional().describe('The account. Required if several are configured.');
const LIMIT = wholeNumber(1, 200).default(50).describe('Maximum number of rows.');

/** Query parameters of GET /api/v1/dlq. */
export const DlqLookupQuery = z.object({
  account: ACCOUNT,
  ...filtersOf('dlq'),
  limit: LIMIT,
});

/** Query parameters of GET /api/v1/events. */
export const EventLookupQuery = z.object({ account: ACCOUNT, ...filtersOf('events'), limit: LIMIT });

/** Query parameters of GET /api/v1/messages/ID. */
export const MessageLookupQuery = z.object({ account: ACCOUNT });

const Text = Maybe(z.string());

const FoundDeadLetter = DeadLetterView.omit({ label: true }).extend({
  enteredAt: Maybe(Time),
  state: Text,
  api: Text,
  callerIp: Text,
  flowControlKey: Text,
  workflowRunId: Text,
  workflowUrl: Text,
  failureCallbackUrl: Text,
  maxRetries: Maybe(Num),
  kind: z.string().describe('Id of the kind.'),
});

const OF_MESSAGE = {
  messageId: z.string(),
  url: Text,
  topic: Text,
  queue: Text,
  schedule: Text,
  label: Text.describe('The first of `labels`.'),
  labels: z.array(z.string()),
  flowControlKey: Text,
  workflowUrl: Text,
};

const ERROR = Text.describe("The service's explanation of a failed attempt, at most 200 characters, without secrets.");

const FoundEvent = z.object({
  time: Time,
  state: z.string(),
  responseStatus: Maybe(z.int()),
  error: ERROR,
  nextDeliveryAt: Maybe(Time),
  ...OF_MESSAGE,
});

const FOUND = { now: Time.describe('Time of the read; up to 10 s ago.'), account: z.string() };

const lookupOf = <Row extends z.ZodObject>(row: Row) =>
  z.object({
    ...FOUND,
    hasMore: z.boolean().describe('Whether the service may list more matching rows.'),
    mayMissNewer: z.boolean().describe('Whether newer rows may be missing, because the service ignores the order.'),
    proven: z.boolean().describe('Whether every row has the fields of the filters, and matches them.'),
    rejected: z.int().describe('Number of unreadable rows, which are missing.'),
    incomplete: z.int().describe('Number of rows from which an unreadable value was omitted.'),
    rows: z.array(row).describe('The newest first.'),
  });

export const DlqLookup = lookupOf(FoundDeadLetter);
export type DlqLookup = z.output<typeof DlqLookup>;

export const EventLookup = lookupOf(FoundEvent);
export type EventLookup = z.output<typeof EventLookup>;

export const MessageLookup = z.object({
  ...FOUND,
  ...OF_MESSAGE,
  workflowRunId: Text,
  traceId: Text.describe('Trace of the publisher, if it is sampled; null for messages of a schedule.'),
  outcome: Text.describe('The final state; null while the message is in flight, or if its end is not listed.'),
  attempts: z.int().describe('Listed attempts.'),
  durationSeconds: Maybe(Seconds).describe('From the creation to the end.'),
  missing: z
    .array(z.enum(['all', 'creation', 'end', 'unread']))
    .describe('Events missing from the event log. `unread`: the message has too many events to read them all.'),
  events: z
    .array(
      z.object({
        time: Time,
        state: z.string(),
        attempt: Maybe(z.int()).describe('Number of the attempt that this event starts or ends.'),
        tookSeconds: Maybe(Seconds).describe('Duration of the attempt that this event ends.'),
        responseStatus: Maybe(z.int()).describe('0 without a response.'),
        error: ERROR,
        nextDeliveryAt: Maybe(Time),
      }),
    )
    .describe('The oldest first.'),
  deadLetter: Maybe(FoundDeadLetter),
});
export type MessageLookup = z.output<typeof MessageLookup>;
