import { z } from 'zod';
import { boundText } from '../kit/bounded-text.ts';
import {
  type DeliveryEvent,
  type DlqEntry,
  EVENT_STATES,
  type EventState,
  type FlowControlEntry,
} from '../model/message.ts';

/**
 * The only file that knows the service's field names. Liberal in spelling and type, because documented and real answers
 * differ; a row it can't use is undefined, which the caller counts.
 */

const Text = z.union([z.string(), z.number()]);
const Maybe = <T extends z.ZodType>(type: T) => type.nullish();

const DlqRow = z.object({ dlqId: Maybe(Text), messageId: Maybe(Text), createdAt: Maybe(Text) });
const EventRow = z.object({ messageId: Text, state: z.string(), time: Text });
const FlowControlRow = z.object({
  flowControlKey: z.string(),
  waitListSize: Maybe(Text),
  waitlistSize: Maybe(Text),
  parallelismMax: Maybe(z.number()).catch(undefined),
  parallelismCount: Maybe(z.number()).catch(undefined),
  rateMax: Maybe(z.number()).catch(undefined),
  rateCount: Maybe(z.number()).catch(undefined),
  ratePeriod: Maybe(z.number()).catch(undefined),
  isPaused: Maybe(z.boolean()).catch(undefined),
});

/** Longer keys are shortened, so that one hostile row can't make every scrape huge. */
const LONGEST_KEY = 512;

/** What the service writes for "no limit". */
const UNLIMITED = 2 ** 31 - 1;

const PageEnvelope = z.object({ cursor: z.union([z.string(), z.number()]).nullish() });

/** The latest time that a Date can hold, so that nothing later in the way fails at one. */
const LATEST = 8.64e15;

/** Milliseconds since the Unix epoch from a number, decimal text or ISO 8601 text. */
function toMillis(value: string | number | null | undefined): number | undefined {
  if (value === null || value === undefined || value === '') return undefined;
  const number = Number(value);
  const ms = Number.isFinite(number) ? number : Date.parse(String(value));
  return ms >= 0 && ms <= LATEST ? ms : undefined;
}

export function toDlqEntry(row: unknown): DlqEntry | undefined {
  const parsed = DlqRow.safeParse(row);
  if (!parsed.success) return undefined;
  const { dlqId, messageId, createdAt } = parsed.data;
  const id = dlqId ?? messageId;
  return id === null || id === undefined ? undefined : { id: String(id), createdAt: toMillis(createdAt) };
}

const KNOWN_STATES: ReadonlySet<string> = new Set(EVENT_STATES);

function toEventState(state: string): EventState {
  const lower = state.toLowerCase();
  if (lower === 'canceled') return 'cancelled';
  return KNOWN_STATES.has(lower) ? (lower as EventState) : 'unknown';
}

export function toDeliveryEvent(row: unknown): DeliveryEvent | undefined {
  const parsed = EventRow.safeParse(row);
  const time = parsed.success ? toMillis(parsed.data.time) : undefined;
  if (!parsed.success || time === undefined) return undefined;
  return { messageId: String(parsed.data.messageId), state: toEventState(parsed.data.state), time };
}

export function toFlowControlEntry(row: unknown): FlowControlEntry | undefined {
  const parsed = FlowControlRow.safeParse(row);
  if (!parsed.success) return undefined;
  const { flowControlKey, waitListSize, waitlistSize, isPaused, ...numbers } = parsed.data;
  // A size of zero may be left out.
  const size = Number(waitListSize ?? waitlistSize ?? 0);
  if (!Number.isFinite(size) || size < 0) return undefined;
  const entry = { key: boundText(flowControlKey, LONGEST_KEY), waitlistSize: size };
  // A service that reports any of these leaves out what is zero or false; a limit that it leaves out is none.
  if (isPaused == null && Object.values(numbers).every(number => number == null)) return entry;
  const { parallelismMax, parallelismCount, rateMax, rateCount, ratePeriod } = numbers;
  const limit = (max: number | null | undefined) => (max == null || max <= 0 || max >= UNLIMITED ? undefined : max);
  const hasRate = limit(rateMax) !== undefined;
  return {
    ...entry,
    parallelismLimit: limit(parallelismMax),
    parallelismInUse: parallelismCount ?? 0,
    rateLimit: limit(rateMax),
    rateUsed: hasRate ? (rateCount ?? 0) : undefined,
    ratePeriodSeconds: hasRate ? (ratePeriod ?? undefined) : undefined,
    paused: isPaused ?? false,
  };
}

/** The rows of a list answer and where it goes on; undefined when the answer is no such list. An empty list may be null. */
export function toPage(
  body: unknown,
  list: string,
): { rows: readonly unknown[]; cursor: string | undefined } | undefined {
  const envelope = PageEnvelope.safeParse(body);
  if (!envelope.success) return undefined;
  const lists = body as Record<string, unknown>;
  // The event log is being renamed.
  const rows = list === 'events' && lists.events === undefined ? lists.logs : lists[list];
  if (rows !== null && !Array.isArray(rows)) return undefined;
  const cursor = envelope.data.cursor ?? '';
  return { rows: rows ?? [], cursor: cursor === '' ? undefined : String(cursor) };
}

/** The rows of the flow-control list, which comes bare or wrapped. */
export function toFlowControlRows(body: unknown): readonly unknown[] | undefined {
  return Array.isArray(body) ? body : toPage(body, 'flowControls')?.rows;
}
