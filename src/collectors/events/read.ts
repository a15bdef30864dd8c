import { hash64 } from '../../kit/hash.ts';
import { recordOf } from '../../kit/record.ts';
import { type DeliveryEvent, EVENT_STATES } from '../../model/message.ts';
import type { ListPage, Reader } from '../../upstream/api.ts';
import { bytesOf, ImplausibleResponse, MAX_READ_BYTES } from '../collector.ts';
import { eventIdentity, type KeptEvent } from './kept-event.ts';
import { type Memory, noteEvent } from './memory.ts';
import { statusClassOf } from './tally.ts';

/** Number of pages after which a range is shortened. Ranges are read completely, because pages may come in any order. */
export const MAX_RANGE_PAGES = 20;
/** Size of an event in memory, without its row and its schedules (bytes). */
const EVENT_BYTES = 800;

/** Events of one range of the log. Times are in milliseconds since the Unix epoch, both ends included. */
export interface RangeRead {
  readonly from: number;
  readonly to: number;
  readonly events: Map<bigint, KeptEvent>;
  readonly rows: Map<bigint, DeliveryEvent> | undefined;
  readonly twice: bigint[];
  /** Size in memory, including repeated rows. */
  bytes: number;
  rejected: number;
  /** Whether any row was unreadable or incomplete. */
  isPartial: boolean;
  /**
   * Number of pages with events of the range. Other pages do not count, because shortening a range that the service ignores
   * does not help.
   */
  pages: number;
  readonly iterator: AsyncIterator<ListPage<DeliveryEvent>>;
}

export function startRange(api: Reader, from: number, to: number, isDetailed: boolean, signal: AbortSignal): RangeRead {
  const iterator = api.eventPages({ fromDate: from, toDate: to }, signal, isDetailed ? 'detail' : undefined);
  const rows = isDetailed ? new Map<bigint, DeliveryEvent>() : undefined;
  return {
    ...{ from, to, events: new Map(), rows, twice: [], bytes: 0, rejected: 0, isPartial: false, pages: 0 },
    iterator,
  };
}

const INDEX = recordOf(EVENT_STATES, (_, index) => index);

/** Reads up to `pages` more pages of a range. Returns whether the range is complete. */
export async function readMore(
  range: RangeRead,
  pages: number,
  { destinationOf, schedules, queues }: Pick<Memory, 'destinationOf' | 'schedules' | 'queues'>,
): Promise<boolean> {
  const { from, to, events, iterator } = range;
  for (let read = 0; read < pages; read += 1) {
    const page = await iterator.next();
    if (page.done) return true;
    range.rejected += page.value.rejected;
    range.isPartial ||= page.value.rejected > 0 || page.value.incomplete > 0;
    let isOfRange = false;
    for (const event of page.value.rows) {
      const { messageId, state, time, dueAt = 0 } = event;
      // The service ignores the range. These events belong to other reads.
      if (time < from || time > to) continue;
      isOfRange = true;
      const message = hash64(messageId);
      const index = INDEX[state];
      const identity = eventIdentity(message, index, time);
      const [destination, own, statusClass] = [destinationOf(event), schedules.of(event), statusClassOf(event.status)];
      const kept = { identity, message, state: index, time, dueAt, destination, schedules: own, statusClass };
      range.bytes += EVENT_BYTES + (own ? bytesOf(own) : 0);
      if (range.bytes > MAX_READ_BYTES)
        throw new ImplausibleResponse(`more than ${events.size} events within ${to - from + 1} ms`);
      if (events.has(identity)) {
        range.twice.push(identity);
        continue;
      }
      events.set(identity, kept);
      noteEvent(queues.deliveries, event);
      if (!range.rows) continue;
      range.rows.set(identity, event);
      range.bytes += bytesOf(event);
    }
    if (isOfRange) range.pages += 1;
    if (range.bytes > MAX_READ_BYTES / 2 && to > from) {
      // Even a few pages are a reason to shorten the range if they are large.
      range.pages = Math.max(range.pages, MAX_RANGE_PAGES);
      return false;
    }
  }
  return false;
}

/** Estimates a shorter length (ms) for a range that was too long. */
export function shorterSpan({ from, to, events }: RangeRead): number {
  let [first, last] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const { time } of events.values()) {
    first = Math.min(first, time);
    last = Math.max(last, time);
  }
  // Pages are mostly ordered by time, so the pages read so far show the density of the log.
  const covered = Math.max(0, last - first) * 0.7;
  return Math.max(1, Math.floor(Math.min((to - from + 1) / 2, covered || Number.POSITIVE_INFINITY)));
}
