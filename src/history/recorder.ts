import type { Clock } from '../kit/clock.ts';
import { HOUR } from '../kit/duration.ts';
import type { Log } from '../kit/log.ts';
import { createYielder } from '../kit/yielder.ts';
import type { Change } from '../model/change.ts';
import type { AccountHistory, Point, RecordedSeries } from '../model/history.ts';
import type { Store } from '../store/store.ts';
import {
  appendSample,
  type Chunk,
  decodeChunk,
  encodeChunk,
  type OpenChunk,
  openChunk,
  pick,
  pickSeries,
  pointsOf,
} from './chunk.ts';
import { type HourlyValues, Hours } from './hours.ts';
import { join as joinPoints, MAX_GAP } from './points.ts';
import { ALWAYS } from './recent.ts';
import { isOfFamily, metricOf } from './series-name.ts';

/** Stored hours of an account, with uncommitted changes. Hours count from the Unix epoch. */
type HistoryRows = ReturnType<typeof createHistoryRows>;

interface RowsDeps {
  readonly account: string;
  readonly store: Pick<Store, 'scan' | 'sizes'>;
  readonly log: Pick<Log, 'warn'>;
}

const PREFIX = 'history/';
const KEY = /^history\/(\d{8})$/;
/** Row of the hourly values, which are independent of the limits for samples. */
const HOURLY = 'hourly';
type Row = number | typeof HOURLY;
const keyOf = (row: Row) => PREFIX + (row === HOURLY ? row : String(row).padStart(8, '0'));

function createHistoryRows({ account, store, log }: RowsDeps) {
  const unsaved = new Map<string, string | null>();
  let isDamageLogged = false;

  return {
    /** Returns undefined for a missing or damaged row. Logs damage once. Rejects with StoreError. */
    async load(row: Row): Promise<Chunk | undefined> {
      const key = keyOf(row);
      const found = unsaved.has(key) ? unsaved.get(key) : (await store.scan(account, key)).get(key);
      try {
        return typeof found === 'string' ? decodeChunk(found) : undefined;
      } catch (error) {
        if (!isDamageLogged) log.warn({ account, key, error: String(error) }, 'damaged history row skipped');
        isDamageLogged = true;
        return undefined;
      }
    },
    async sizes(): Promise<Map<number, number>> {
      const known = new Map<number, number>();
      const note = (key: string, size: number | undefined) => {
        const hour = Number(KEY.exec(key)?.[1]);
        if (size === undefined) known.delete(hour);
        else if (!Number.isNaN(hour)) known.set(hour, key.length + size);
      };
      for (const [key, size] of await store.sizes(account, PREFIX)) note(key, size);
      for (const [key, value] of unsaved) note(key, value?.length);
      return known;
    },
    /** Null deletes the row. */
    set: (row: Row, value: string | null): void => void unsaved.set(keyOf(row), value),
    unsaved: (): readonly Change[] => [...unsaved].map(([key, value]) => ({ key, value })),
    saved(changes: readonly Change[]): void {
      for (const { key, value } of changes) if (unsaved.get(key) === value) unsaved.delete(key);
    },
  };
}

export interface HistoryLimits {
  /** Retention (ms); 0 disables the history. */
  readonly keep: number;
  readonly maxBytes: number;
}

export interface RecorderDeps extends RowsDeps {
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
}

type IsWanted = (series: string) => boolean;

export const SAMPLE_EVERY = 60_000;
/** Length below which a window needs more than one sample a minute (ms). */
export const SHORT = 120_000;
/** Minimum period for which the samples of all series are in memory (ms). */
const SPAN = ALWAYS + MAX_GAP;
/** Number of samples recorded in an hour before each clean-up, so that a briefly wrong clock does not delete history. */
const TIDY_EVERY = 10;
/** Share of the size limit that rows may fill after a clean-up, because the current hour still grows. */
const FILLED = 0.9;
/** Minimum change of wall time relative to monotonic time that counts as a step (ms). */
const STEP = 5000;

/** Series that is 1 if the wall clock was set since the previous sample. */
const CLOCK_STEPPED = '!stepped';

const minuteOf = (at: number) => Math.floor(at / SAMPLE_EVERY);
const hourOf = (at: number) => Math.floor(at / HOUR);

/** Details of a sample in addition to its values. */
interface SampleOptions {
  /** Series that are only in memory. */
  readonly unstored?: ReadonlySet<string>;
  /** Returns the values for windows of hours and days. Called once an hour, or with each sample while it returns no values. */
  hourly?(): HourlyValues;
}

/**
 * Records and reads samples of an account. Memory contains all series of the last 90 minutes, watched series of longer windows, and
 * hourly values of three days. Hours count from the Unix epoch.
 */
export class Recorder implements AccountHistory {
  readonly #deps: RecorderDeps;
  readonly #rows: HistoryRows;
  /** Hours in memory, including the current one. */
  readonly #chunks = new Map<number, Chunk>();
  /** The current hour. */
  #open: { readonly hour: number; readonly samples: OpenChunk } | undefined;
  /** Values for short windows. */
  #latest = openChunk();
  /** Length of the longest window (ms), and the series that windows need. */
  #watched: { readonly over: number; readonly isWatched: IsWanted } = { over: 0, isWatched: () => false };
  #hours = new Hours();
  /** The current hour and the first hour with all series, as of the last call of `#trim`. */
  #trimmed = '';
  /** Difference between wall time and monotonic time when the clock was last read. */
  #offset: number | undefined;
  /** Whether the wall clock was set since the last recorded sample. */
  #isStepped = false;
  /** Time of the last change of the wall clock. The age of earlier samples is unknown. */
  #steppedAt = 0;
  #limits: HistoryLimits = { keep: 0, maxBytes: 0 };
  /** Whether rows have been cleaned up since the last change of the limits. */
  #isTidy = false;
  #isFailing = false;

  private constructor(deps: RecorderDeps) {
    this.#deps = deps;
    this.#rows = createHistoryRows(deps);
  }

  /** Loads the last hours into memory. Rejects with StoreError. */
  static async open(deps: RecorderDeps): Promise<Recorder> {
    const recorder = new Recorder(deps);
    const now = deps.clock.now();
    await recorder.#load(hourOf(now - SPAN), hourOf(now), () => true);
    recorder.#hours = new Hours(await recorder.#rows.load(HOURLY));
    return recorder;
  }

  /**
   * Adds a sample with one value per series, at most once a minute. Committing `unsaved` stores it. Never rejects, unless `hourly`
   * throws. Do not call it concurrently.
   */
  async sample(
    values: ReadonlyMap<string, number>,
    { unstored = new Set(), hourly }: SampleOptions = {},
  ): Promise<void> {
    const { account, log } = this.#deps;
    const at = this.#readClock();
    if (this.#isStepped) this.#hours.clear();
    try {
      await this.#record(at, values, unstored);
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) log.warn({ account, error: String(error) }, 'failed to read history; it may have a gap');
      this.#isFailing = true;
    }
    if (hourly) this.#addHour(at, hourly);
  }

  /** Adds values for windows shorter than `SHORT`, which stay in memory for a few minutes. */
  note(values: ReadonlyMap<string, number>): void {
    const at = this.#readClock();
    this.#latest = openChunk(pick(this.#latest, time => time >= at - SHORT - MAX_GAP && time < at));
    appendSample(this.#latest, at, values);
  }

  /** Loads watched series for windows of up to `over` milliseconds, and keeps them in memory. Rejects with StoreError. */
  async watch(over: number, isWatched: IsWanted): Promise<void> {
    const now = this.#deps.clock.now();
    this.#watched = { over, isWatched: series => series === CLOCK_STEPPED || isWatched(series) };
    await this.#load(hourOf(now - over - MAX_GAP), hourOf(now - SPAN) - 1, this.#watched.isWatched);
  }

  unsaved(): readonly Change[] {
    return this.#rows.unsaved();
  }

  saved(changes: readonly Change[]): void {
    this.#rows.saved(changes);
  }

  use(limits: HistoryLimits): void {
    if (limits.keep !== this.#limits.keep || limits.maxBytes < this.#limits.maxBytes) this.#isTidy = false;
    this.#limits = limits;
  }

  /**
   * Returns the values of a series from `from` until `to`, as `recent` does. Reads from memory: only watched series reach back more
   * than 90 minutes.
   */
  points(series: string, from: number, to: number): readonly Point[] {
    const fine = to - from < SHORT ? this.#latest : undefined;
    const known = Math.max(from, this.#steppedAt);
    const chunks = fine?.series.has(series) ? [fine] : this.#since(known - MAX_GAP);
    if (!chunks.some(each => each.series.has(series))) return [];
    return pointsOf(chunks, series, known, to).filter(({ at }) => at >= this.#steppedAt);
  }

  recent(series: string, over: number): readonly Point[] {
    const now = this.#deps.clock.now();
    const hours = over > ALWAYS ? this.#hours.points(series, now - over, this.#steppedAt) : [];
    const last = hours.at(-1)?.at;
    if (last === undefined) return this.points(series, now - over, now);
    return joinPoints(
      hours,
      this.points(series, last, now).filter(({ at }) => at > last),
    );
  }

  async read({ from, to, families }: Parameters<AccountHistory['read']>[0]): Promise<RecordedSeries> {
    const wanted = new Set(families);
    const start = Math.max(from, this.#deps.clock.now() - (this.#limits.keep || 2 * SPAN));
    const turns = createYielder();
    const chunks: Chunk[] = [];
    for (let hour = hourOf(start); hour <= hourOf(to); hour += 1) {
      await turns.pass();
      const chunk = (await this.#rows.load(hour)) ?? this.#chunks.get(hour);
      // Omit series by destination, which are recorded only for alert conditions. Their sum is a separate series.
      const isWanted = (series: string) => isOfFamily(metricOf(series), wanted) && !/[{,]destination="/.test(series);
      const picked = chunk && pick(pickSeries(chunk, isWanted), at => at >= start && at <= to);
      if (picked) chunks.push(picked);
    }
    return join(chunks);
  }

  #readClock(): number {
    const { clock } = this.#deps;
    const at = clock.now();
    const last = this.#offset;
    this.#offset = at - clock.monotonic();
    if (last !== undefined && Math.abs(this.#offset - last) > STEP) {
      this.#isStepped = true;
      this.#steppedAt = at;
    }
    return at;
  }

  #addHour(at: number, hourly: () => HourlyValues): void {
    if (!this.#hours.isDue(at)) return;
    const values = hourly();
    if (values.counters.size + values.gauges.size === 0) return;
    this.#hours.add(at, values, (series, from) => this.points(series, from, at));
    this.#rows.set(HOURLY, encodeChunk(this.#hours.chunk()));
  }

  /** Returns the hours in memory, starting with the hour of `from`. */
  #since(from: number): readonly Chunk[] {
    const wanted = [...this.#chunks].filter(([hour]) => hour >= hourOf(from)).sort(([a], [b]) => a - b);
    return wanted.map(([, chunk]) => chunk);
  }

  async #load(from: number, to: number, isKept: IsWanted): Promise<void> {
    const now = this.#deps.clock.now();
    const turns = createYielder();
    for (let hour = from; hour <= to; hour += 1) {
      await turns.pass();
      const chunk = await this.#rows.load(hour);
      if (!chunk) continue;
      this.#chunks.set(hour, pickSeries(chunk, isKept));
      const stepped = chunk.times.findLast((at, index) => at <= now && chunk.series.get(CLOCK_STEPPED)?.[index] === 1);
      this.#steppedAt = Math.max(this.#steppedAt, stepped ?? 0);
    }
  }

  async #record(at: number, values: ReadonlyMap<string, number>, unstored: ReadonlySet<string>): Promise<void> {
    const samples = await this.#openAt(at);
    const last = samples.times.at(-1);
    if (last === undefined || minuteOf(at) > minuteOf(last)) {
      appendSample(samples, at, this.#isStepped ? new Map([...values, [CLOCK_STEPPED, 1]]) : values);
      this.#isStepped = false;
    }
    const { keep } = this.#limits;
    const { length } = samples.times;
    if (keep > 0) this.#rows.set(hourOf(at), encodeChunk(pickSeries(samples, name => !unstored.has(name))));
    const isDue = length >= TIDY_EVERY && (!this.#isTidy || length % TIDY_EVERY === 0);
    if (keep > 0 ? !isDue : this.#isTidy) return;
    await tidy(this.#rows, this.#limits, at);
    this.#isTidy = true;
  }

  /** Opens the hour of `at`. Drops later samples, which exist if the clock was set back. Rejects with StoreError. */
  async #openAt(at: number): Promise<OpenChunk> {
    const hour = hourOf(at);
    const last = this.#open;
    if (last?.hour === hour && (last.samples.times.at(-1) ?? at) <= at) {
      this.#trim(at);
      return last.samples;
    }
    const known = last?.hour === hour ? last.samples : ((await this.#rows.load(hour)) ?? this.#chunks.get(hour));
    // The samples of a newly opened hour were recorded before the last change of the clock. Drop samples with later times.
    const end = last && last.hour !== hour ? Math.min(at, this.#steppedAt) : at;
    const samples = openChunk(known && pick(known, time => time < end));
    this.#open = { hour, samples };
    this.#chunks.set(hour, samples);
    this.#trim(at);
    return samples;
  }

  /** Drops samples that no window needs, because a process may have a thousand accounts. */
  #trim(at: number): void {
    const [hour, first] = [hourOf(at), hourOf(at - SPAN)];
    if (this.#trimmed === `${hour} ${first}`) return;
    this.#trimmed = `${hour} ${first}`;
    const { over, isWatched } = this.#watched;
    const firstWatched = hourOf(at - over - MAX_GAP);
    for (const [each, chunk] of this.#chunks) {
      if (each > hour || each < Math.min(first, firstWatched)) this.#chunks.delete(each);
      else if (each < first) this.#chunks.set(each, pickSeries(chunk, isWatched));
    }
  }
}

/** Deletes rows that are too old and, above the size limit, the oldest rows, in the next commit. Rejects with StoreError. */
async function tidy(rows: HistoryRows, { keep, maxBytes }: HistoryLimits, now: number): Promise<void> {
  const sizes = await rows.sizes();
  let bytes = sizes.values().reduce((sum, size) => sum + size, 0);
  for (const [hour, size] of [...sizes].sort(([a], [b]) => a - b)) {
    const isOld = keep === 0 || (hour + 1) * HOUR < now - keep;
    if (!isOld && (bytes <= maxBytes * FILLED || hour >= hourOf(now))) continue;
    rows.set(hour, null);
    bytes -= size;
  }
}

/** Joins hours. A time without values marks a gap in charts. */
function join(chunks: readonly Chunk[]): RecordedSeries {
  const sampled = chunks.flatMap(({ times }) => times);
  const times = sampled.flatMap((at, index) => {
    const last = sampled[index - 1] ?? at;
    return at - last > MAX_GAP ? [last + SAMPLE_EVERY, at] : at;
  });
  const places = new Map(times.map((at, index) => [at, index]));
  const series = new Map<string, (number | null)[]>();
  for (const { times: some, series: columns } of chunks) {
    for (const [name, values] of columns) {
      const all = series.get(name) ?? Array<number | null>(times.length).fill(null);
      series.set(name, all);
      for (const [index, at] of some.entries()) {
        const value = values[index] as number;
        if (!Number.isNaN(value)) all[places.get(at) as number] = value;
      }
    }
  }
  return { times, series };
}
