import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import { createTurns } from '../kit/turns.ts';
import type { Change } from '../model/change.ts';
import type { AccountHistory, Point, RecordedSeries } from '../model/history.ts';
import type { Store } from '../store/store.ts';
import {
  before,
  type Chunk,
  decodeChunk,
  encodeChunk,
  type OpenChunk,
  openChunk,
  timesOf,
  unpack,
  valuesOf,
} from './chunk.ts';
import { shrink } from './keeping.ts';
import { isOfFamily, metricOf } from './series-name.ts';

/** How much is kept of one account. */
export interface HistoryLimits {
  /** Milliseconds; 0: nothing in the store. */
  readonly keep: number;
  /** Bytes of its rows. */
  readonly maxBytes: number;
}

/** What was recorded at some times of one hour. */
export interface RecordedHour {
  /** Milliseconds between two samples. */
  readonly step: number;
  readonly times: readonly number[];
  /** By name; NaN: none. */
  readonly series: ReadonlyMap<string, readonly number[]>;
}

/** Records what an account shows, and knows what was recorded. One call of `sample` at a time. */
export interface Recorder extends AccountHistory {
  /**
   * Takes what is shown now, by series; a second one within a minute is left out. It is in the store with the next commit of
   * `unsaved`. Never rejects.
   */
  sample(values: ReadonlyMap<string, number>): Promise<void>;
  /** Rows that the store does not have yet. */
  unsaved(): readonly Change[];
  /** These are committed. */
  saved(changes: readonly Change[]): void;
  /** From now on. */
  use(limits: HistoryLimits): void;
  /** Hour by hour, ascending, series whose name is wanted. Rejects with StoreError. */
  hours(from: number, to: number, isWanted: (series: string) => boolean): AsyncIterable<RecordedHour>;
}

export interface RecorderDeps {
  readonly account: string;
  readonly store: Store;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  readonly log: Pick<Log, 'warn'>;
  /** Gives one string for equal ones. */
  share(text: string): string;
}

export const SAMPLE_EVERY = 60_000;
const HOUR = 3_600_000;
/** What memory holds at least, milliseconds: an hour and a quarter, and the sample before. */
const IN_MEMORY = 78 * 60_000;
/** After so many samples of an hour the account is tidied, again and again: a clock that is wrong for a moment shall delete nothing. */
const TIDY_EVERY = 10;
/** It is then left with this share of its bytes: the hour that goes on needs some until the next time. */
const FILLED = 0.9;
/** By so many milliseconds the wall clock may go another way than the monotonic one before it counts as a step. */
const STEP = 5000;
/** Two samples that are further apart than so many of their steps have a gap between them. */
const GAP = 2.5;

/** Series that says of a sample that the wall clock was set since the one before. */
export const CLOCK_STEPPED = '!stepped';

const ROWS = 'history/';
const keyOf = (hour: number) => `${ROWS}${String(hour).padStart(8, '0')}`;
const hourOf = (at: number) => Math.floor(at / HOUR);
const hourOfKey = (key: string) => Number(key.slice(ROWS.length));
const minuteOf = (at: number) => Math.floor(at / SAMPLE_EVERY);

const NONE: HistoryLimits = { keep: 0, maxBytes: 0 };

/** Reads what is needed at once, the last hours. Rejects with StoreError. */
export async function openRecorder({ account, store, clock, log, share }: RecorderDeps): Promise<Recorder> {
  const turns = createTurns();
  const unsaved = new Map<string, string | null>();
  /** The hours before the one that goes on, as far as memory holds them. */
  const past = new Map<number, Chunk>();
  let open: { readonly hour: number; readonly samples: OpenChunk } | undefined;
  let limits = NONE;
  /** Samples of the hour that goes on when it was tidied last. */
  let tidiedAt = 0;
  let offset: number | undefined;
  let isStepped = false;
  let isFailing = false;
  let isDamageKnown = false;

  /** Undefined where there is none, or a damaged one. */
  function decode(key: string, text: string | null | undefined): Chunk | undefined {
    if (text === undefined || text === null) return undefined;
    try {
      const chunk = decodeChunk(text);
      valuesOf(chunk, () => true);
      return { ...chunk, names: share(chunk.names) };
    } catch (error) {
      if (!isDamageKnown) log.warn({ account, key, error: String(error) }, 'a damaged hour of the history is left out');
      isDamageKnown = true;
      return undefined;
    }
  }

  async function stored(hour: number): Promise<Chunk | undefined> {
    const key = keyOf(hour);
    const text = unsaved.has(key) ? unsaved.get(key) : (await store.scan(account, key)).get(key);
    return decode(key, text);
  }

  const inMemory = (hour: number) => (open?.hour === hour ? open.samples.chunk() : past.get(hour));

  /** All chunks of these hours in order. Memory has the finest of each. */
  async function* chunks(from: number, to: number): AsyncGenerator<Chunk> {
    const rows = new Map<string, string | null>([...(await store.scan(account, ROWS)), ...unsaved]);
    const hours = new Set([...rows.keys()].map(hourOfKey));
    for (const hour of [...past.keys(), ...(open ? [open.hour] : [])]) hours.add(hour);
    for (const hour of [...hours].sort((a, b) => a - b)) {
      if (!(hour >= hourOf(from) && hour <= hourOf(to))) continue;
      await turns.pass();
      const chunk = inMemory(hour) ?? decode(keyOf(hour), rows.get(keyOf(hour)));
      if (chunk) yield chunk;
    }
  }

  /** The hour of `at`, to go on with: what it has of `at` or later was recorded by a clock that was set back since. */
  async function reopen(at: number): Promise<OpenChunk> {
    const hour = hourOf(at);
    if (open?.hour === hour && (open.samples.lastAt ?? at) <= at) return open.samples;
    const known = inMemory(hour) ?? (await stored(hour));
    const finished = open?.samples.chunk();
    if (open && finished && open.hour < hour) past.set(open.hour, finished);
    const samples = openChunk(share, known && before(known, at));
    open = { hour, samples };
    for (const each of past.keys()) if (each < hourOf(at - IN_MEMORY) || each >= hour) past.delete(each);
    tidiedAt = 0;
    return samples;
  }

  /** Notes whether the wall clock was set since the last sample of this process. */
  function watchClock(at: number): void {
    const last = offset;
    offset = at - clock.monotonic();
    if (last !== undefined && Math.abs(offset - last) > STEP) isStepped = true;
  }

  async function record(at: number, values: ReadonlyMap<string, number>): Promise<void> {
    const samples = await reopen(at);
    const { lastAt } = samples;
    if (lastAt === undefined || minuteOf(at) > minuteOf(lastAt)) {
      samples.add(at, isStepped ? new Map([...values, [CLOCK_STEPPED, 1]]) : values);
      isStepped = false;
    }
    const chunk = samples.chunk();
    if (limits.keep > 0 && chunk) unsaved.set(keyOf(hourOf(at)), encodeChunk(chunk));
    const length = chunk?.length ?? 0;
    const isDue = limits.keep > 0 ? length >= tidiedAt + TIDY_EVERY : tidiedAt === 0;
    if (!isDue) return;
    await tidy(at);
    tidiedAt = length;
  }

  /** Deletes what is too old, and makes what is too large smaller. */
  async function tidy(now: number): Promise<void> {
    const rows = new Map(await store.scan(account, ROWS));
    for (const [key, value] of unsaved) {
      if (value === null) rows.delete(key);
      else rows.set(key, value);
    }
    const kept = new Map<string, string>();
    for (const [key, text] of rows) {
      const isOver = limits.keep === 0 || (hourOfKey(key) + 1) * HOUR < now - limits.keep;
      if (isOver) unsaved.set(key, null);
      else kept.set(key, text);
    }
    const age = (key: string) => hourOf(now) - hourOfKey(key);
    for await (const { key, value } of shrink(kept, limits.maxBytes * FILLED, { age, decode, turns }))
      unsaved.set(key, value);
  }

  for (let hour = hourOf(clock.now() - IN_MEMORY); hour <= hourOf(clock.now()); hour += 1) {
    const chunk = await stored(hour);
    if (chunk) past.set(hour, chunk);
  }

  let lately: ReturnType<typeof unpack> | undefined;
  /** What memory has of a series. Kept until the work that asks for it ends: who asks for one series asks for dozens. */
  function unpacked(series: string): readonly Point[] {
    if (!lately) {
      const hours = [...past.keys(), ...(open && !past.has(open.hour) ? [open.hour] : [])].sort((a, b) => a - b);
      lately = unpack(hours.flatMap(hour => inMemory(hour) ?? []));
      queueMicrotask(() => {
        lately = undefined;
      });
    }
    return lately(series);
  }

  async function* recordedHours(from: number, to: number, isWanted: (series: string) => boolean) {
    for await (const chunk of chunks(from, to)) {
      const times = timesOf(chunk);
      const within = times.flatMap((at, index) => (at >= from && at <= to ? [index] : []));
      if (within.length === 0) continue;
      const pick = (values: readonly number[]) => within.map(index => values[index] as number);
      const series = [...valuesOf(chunk, isWanted)].map(([name, values]) => [name, pick(values)] as const);
      yield { step: chunk.step * SAMPLE_EVERY, times: pick(times), series: new Map(series) };
    }
  }

  return {
    async sample(values) {
      const at = clock.now();
      watchClock(at);
      try {
        await record(at, values);
        isFailing = false;
      } catch (error) {
        if (!isFailing) log.warn({ account, error: String(error) }, 'the history could not be read; it has a gap');
        isFailing = true;
      }
    },
    unsaved: () => [...unsaved].map(([key, value]) => ({ key, value })),
    saved(changes) {
      for (const { key, value } of changes) if (unsaved.get(key) === value) unsaved.delete(key);
    },
    use(next) {
      if (next.keep !== limits.keep || next.maxBytes < limits.maxBytes) tidiedAt = 0;
      limits = next;
    },
    hours: recordedHours,
    async read({ from, to, families }) {
      const wanted = new Set(families);
      const since = limits.keep > 0 ? Math.max(from, clock.now() - limits.keep) : from;
      const isWanted = (series: string) => {
        const metric = metricOf(series);
        // By destination it is recorded for conditions alone, beside the sum.
        return isOfFamily(metric, wanted) && !/[{,]destination="/.test(series);
      };
      return join(recordedHours(since, to, isWanted));
    },
    recent(series, over) {
      const now = clock.now();
      const points = unpacked(series).filter(({ at }) => at <= now);
      const first = points.findIndex(({ at }) => at >= now - over);
      const begin = first === -1 ? points.length : first;
      const earlier = points[begin - 1];
      return points.slice(earlier && earlier.at >= now - over - 2 * SAMPLE_EVERY ? begin - 1 : begin);
    },
  };
}

/** Puts hours behind each other. Where the agent was down, one time without values keeps lines from going across. */
async function join(hours: AsyncIterable<RecordedHour>): Promise<RecordedSeries> {
  const times: number[] = [];
  const series = new Map<string, (number | null)[]>();
  const pad = (values: (number | null)[]) => {
    while (values.length < times.length) values.push(null);
  };
  let last: { readonly at: number; readonly step: number } | undefined;
  for await (const { step, times: some, series: columns } of hours) {
    /** Where each sample of this hour stands. */
    const places = some.map(at => {
      if (last && at - last.at > GAP * Math.max(step, last.step)) times.push(last.at + last.step);
      last = { at, step };
      return times.push(at) - 1;
    });
    for (const [name, values] of columns) {
      const all = series.get(name) ?? [];
      series.set(name, all);
      pad(all);
      for (const [index, place] of places.entries()) {
        const value = values[index] as number;
        all[place] = Number.isNaN(value) ? null : value;
      }
    }
  }
  for (const values of series.values()) pad(values);
  return { times, series };
}
