import type { Clock } from '../kit/clock.ts';
import { createYielder } from '../kit/yielder.ts';
import type { Change } from '../model/change.ts';
import type { AccountHistory, Point, RecordedSeries } from '../model/history.ts';
import { type Chunk, encodeChunk, pick, pickSeries } from './chunk.ts';
import { type HistoryMemory, hourOf, openHistoryMemory, type Watched } from './memory.ts';
import { MAX_GAP } from './points.ts';
import { HOUR } from './recent.ts';
import { createHistoryRows, type HistoryRows, type RowsDeps } from './rows.ts';
import { isOfFamily, metricOf } from './series-name.ts';

export interface HistoryLimits {
  /** Retention (ms); 0 disables the history. */
  readonly keep: number;
  readonly maxBytes: number;
}

/** Records and reads samples of an account. Do not call `sample` concurrently. */
export interface Recorder extends AccountHistory {
  /**
   * Adds a sample with one value per series, at most once a minute. Committing `unsaved` stores it, except the series in `unstored`,
   * which are only in memory. Never rejects.
   */
  sample(values: ReadonlyMap<string, number>, unstored?: ReadonlySet<string>): Promise<void>;
  /** Adds values for windows shorter than `SHORT`, which stay in memory for a few minutes. */
  note(values: ReadonlyMap<string, number>): void;
  /** Keeps watched series in memory for long windows. Rejects with StoreError. */
  watch(watched: Watched): Promise<void>;
  /**
   * Returns the values of a series from `from` until `to`, as `recent` does. Reads from memory: only watched series reach back more
   * than 90 minutes.
   */
  points(series: string, from: number, to: number): readonly Point[];
  unsaved(): readonly Change[];
  saved(changes: readonly Change[]): void;
  use(limits: HistoryLimits): void;
}

export interface RecorderDeps extends RowsDeps {
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
}

export const SAMPLE_EVERY = 60_000;
/** Number of samples recorded in an hour before each clean-up, so that a briefly wrong clock does not delete history. */
const TIDY_EVERY = 10;
/** Share of the limit to which rows are shrunk, because the current hour still grows. */
const FILLED = 0.9;
/** Minimum change of wall time relative to monotonic time that counts as a step (ms). */
const STEP = 5000;

/** Series that is 1 if the wall clock was set since the previous sample. */
const CLOCK_STEPPED = '!stepped';

const minuteOf = (at: number) => Math.floor(at / SAMPLE_EVERY);

/** Deletes rows that are too old, and the oldest ones above the size limit, in the next commit. Rejects with StoreError. */
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

/** Returns the time of the last sample that follows a change of the wall clock; 0 without any. */
function lastStep(chunks: readonly Chunk[], now: number): number {
  const stepped = chunks.flatMap(({ times, series }) =>
    times.filter((at, index) => at <= now && series.get(CLOCK_STEPPED)?.[index] === 1),
  );
  return stepped.at(-1) ?? 0;
}

/** Loads the last hours into memory. Rejects with StoreError. */
export async function openRecorder({ clock, ...deps }: RecorderDeps): Promise<Recorder> {
  const { account, log } = deps;
  const rows = createHistoryRows(deps);
  const memory = await openHistoryMemory(rows, clock.now());
  /** Difference between wall time and monotonic time when the clock was last read. */
  let offset: number | undefined;
  /** Whether the wall clock was set since the last recorded sample. */
  let isStepped = false;
  /** Time of the last change of the wall clock. The age of earlier samples is unknown. */
  let steppedAt = lastStep(memory.chunks(), clock.now());
  let limits: HistoryLimits = { keep: 0, maxBytes: 0 };
  /** Hour of the last clean-up, and the number of samples that the hour had then. */
  let tidied = { hour: 0, length: 0 };
  let isFailing = false;

  function readClock(): number {
    const at = clock.now();
    const last = offset;
    offset = at - clock.monotonic();
    if (last !== undefined && Math.abs(offset - last) > STEP) {
      isStepped = true;
      steppedAt = at;
    }
    return at;
  }

  async function record(at: number, values: ReadonlyMap<string, number>, unstored: ReadonlySet<string>) {
    const samples = await memory.openAt(at, steppedAt);
    const { lastAt } = samples;
    if (lastAt === undefined || minuteOf(at) > minuteOf(lastAt)) {
      samples.add(at, isStepped ? new Map([...values, [CLOCK_STEPPED, 1]]) : values);
      isStepped = false;
    }
    const hour = hourOf(at);
    const chunk = samples.chunk();
    const length = chunk?.times.length ?? 0;
    if (limits.keep > 0 && chunk) rows.set(hour, encodeChunk(pickSeries(chunk, name => !unstored.has(name))));
    if (tidied.hour !== hour) tidied = { hour, length: 0 };
    const isDue = limits.keep > 0 ? length >= tidied.length + TIDY_EVERY : tidied.length === 0;
    if (!isDue) return;
    await tidy(rows, limits, at);
    tidied = { hour, length };
  }

  function points(series: string, from: number, to: number): readonly Point[] {
    return memory.points(series, Math.max(from, steppedAt), to).filter(({ at }) => at >= steppedAt);
  }

  return {
    async sample(values, unstored = new Set()) {
      const at = readClock();
      try {
        await record(at, values, unstored);
        isFailing = false;
      } catch (error) {
        if (!isFailing) log.warn({ account, error: String(error) }, 'failed to read history; it may have a gap');
        isFailing = true;
      }
    },
    note(values) {
      memory.note(readClock(), values);
    },
    async watch(watched) {
      const now = clock.now();
      const isWatched = (series: string) => series === CLOCK_STEPPED || watched.isWatched(series);
      await memory.watch({ ...watched, isWatched }, now);
      steppedAt = Math.max(steppedAt, lastStep(memory.chunks(), now));
    },
    points,
    unsaved: rows.unsaved,
    saved: rows.saved,
    use(next) {
      if (next.keep !== limits.keep || next.maxBytes < limits.maxBytes) tidied = { hour: 0, length: 0 };
      limits = next;
    },
    async read({ from, to, families }) {
      const wanted = new Set(families);
      const since = limits.keep > 0 ? Math.max(from, clock.now() - limits.keep) : from;
      const isWanted = (series: string) => {
        const metric = metricOf(series);
        // Destination series are recorded in addition to their sum, only for alert conditions.
        return isOfFamily(metric, wanted) && !/[{,]destination="/.test(series);
      };
      return join(hours(memory, rows, since, to, isWanted));
    },
    recent(series, over) {
      const now = clock.now();
      return points(series, now - over, now);
    },
  };
}

/** Yields the wanted series by hour, oldest first. Rejects with StoreError. */
async function* hours(
  memory: HistoryMemory,
  rows: HistoryRows,
  from: number,
  to: number,
  isWanted: (series: string) => boolean,
): AsyncGenerator<Chunk> {
  const turns = createYielder();
  const known = new Set([...(await rows.sizes()).keys(), ...memory.hours()]);
  for (const hour of [...known].sort((a, b) => a - b)) {
    if (hour < hourOf(from) || hour > hourOf(to)) continue;
    await turns.pass();
    const chunk = (await rows.load(hour)) ?? memory.get(hour);
    const picked = chunk && pick(pickSeries(chunk, isWanted), at => at >= from && at <= to);
    if (picked) yield picked;
  }
}

/** Joins hours. A time without values marks a gap in charts. */
async function join(hours: AsyncIterable<Chunk>): Promise<RecordedSeries> {
  const times: number[] = [];
  const series = new Map<string, (number | null)[]>();
  const pad = (values: (number | null)[]) => {
    while (values.length < times.length) values.push(null);
  };
  for await (const { times: some, series: columns } of hours) {
    const places = some.map(at => {
      const last = times.at(-1);
      if (last !== undefined && at - last > MAX_GAP) times.push(last + SAMPLE_EVERY);
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
