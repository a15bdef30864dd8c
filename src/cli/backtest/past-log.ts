import type { Account } from '../../agent/account.ts';
import type { EventsOptions } from '../../collectors/events/events.ts';
import { noteRange, type ReplayFound, type ReplayRange, readInOrder } from '../../collectors/events/replay.ts';
import type { DeliveryEvent } from '../../model/message.ts';
import type { EventQuery, ListPage, Reader } from '../../upstream/api.ts';

const PAGE = 1000;
const MINUTE = 60_000;
/** Destinations and schedules are not needed to read rows. */
const ROWS_ONLY = { destinationOf: () => '', schedules: { of: () => undefined } };

/** Returns the index of the first event at or after `time`. */
function indexFrom(rows: readonly DeliveryEvent[], time: number): number {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((rows[middle] as DeliveryEvent).time < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Serves the event log up to a simulated time. Reads the log once, in order of time, and keeps only recent events. */
export class PastLog {
  readonly found: ReplayFound;
  failure: unknown;
  readonly #ranges: ReturnType<typeof readInOrder>;
  readonly #keep: number;
  #rows: DeliveryEvent[] = [];
  #unreadable: { readonly from: number; readonly to: number; readonly rows: number }[] = [];
  #droppedTo = Number.NEGATIVE_INFINITY;

  constructor(account: Account, { window, overlap }: EventsOptions, { from, to }: ReplayRange, signal: AbortSignal) {
    // A new agent starts by reading a window of the past.
    const start = Math.max(0, from - window);
    this.found = { readTo: start - 1, events: 0, oldest: undefined, rejected: 0 };
    this.#ranges = readInOrder(account.at('background'), ROWS_ONLY, { from: start, to }, signal, true);
    // Reads repeat the last `overlap`, and may be delayed by a round or a minute.
    this.#keep = 2 * Math.max(window, overlap) + 2 * MINUTE;
  }

  /** Returns the time of the first event; undefined if the log is empty. Rejects with UpstreamError. */
  async oldest(): Promise<number | undefined> {
    while (this.found.oldest === undefined && (await this.#readOn()));
    return this.found.oldest;
  }

  /** Returns a reader of events up to `now()`. Rejects with UpstreamError. */
  reader(now: () => number): Reader {
    return {
      eventPages: query => this.#pages(query, now()),
      async *dlqPages() {
        yield { rows: [], rejected: 0, isLast: true };
      },
      flowControl: async () => 0,
      flowControlKey: async () => undefined,
    };
  }

  async #readOn(): Promise<boolean> {
    const { done, value: range } = await this.#ranges.next().catch(error => {
      this.failure = error;
      throw error;
    });
    if (done) return false;
    noteRange(this.found, range);
    const { from, to, rejected: rows } = range;
    if (rows > 0) this.#unreadable.push({ from, to, rows });
    for (const event of [...(range.rows?.values() ?? [])].sort((a, b) => a.time - b.time)) this.#rows.push(event);
    return true;
  }

  async *#pages(
    { fromDate = 0, toDate = Number.POSITIVE_INFINITY }: EventQuery,
    now: number,
  ): AsyncGenerator<ListPage<DeliveryEvent>> {
    if (fromDate < this.#droppedTo) throw new Error('bug: a part of the log is read that was dropped');
    const until = Math.min(toDate, now);
    while (this.found.readTo < until && (await this.#readOn()));
    const first = indexFrom(this.#rows, fromDate);
    let end = indexFrom(this.#rows, until + 1);
    let rejected = this.#unreadable.find(({ from, to }) => from <= until && to >= fromDate)?.rows ?? 0;
    for (; end - first > PAGE; end -= PAGE) {
      yield { rows: this.#rows.slice(end - PAGE, end).reverse(), rejected, isLast: false };
      rejected = 0;
    }
    yield { rows: this.#rows.slice(first, end).reverse(), rejected, isLast: true };
    this.#drop(indexFrom(this.#rows, now + 1));
  }

  /** Drops events that no later read needs. `end`: index of the first event after now. */
  #drop(end: number): void {
    const newest = this.#rows[end - 1]?.time;
    if (newest === undefined) return;
    const old = indexFrom(this.#rows, newest - this.#keep);
    if (old < PAGE) return;
    this.#droppedTo = (this.#rows[old - 1] as DeliveryEvent).time + 1;
    this.#rows = this.#rows.slice(old);
    this.#unreadable = this.#unreadable.filter(({ to }) => to >= this.#droppedTo);
  }
}
