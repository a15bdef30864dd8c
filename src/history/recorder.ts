import type { Clock } from '../kit/clock.ts';
import { createYielder, type Yielder } from '../kit/yielder.ts';
import type { Change } from '../model/change.ts';
import type { AccountHistory, Point, RecordedSeries } from '../model/history.ts';
import { type Chunk, encodeChunk, pick } from './chunk.ts';
import { shrink } from './keeping.ts';
import { type HistoryMemory, hourOf, openHistoryMemory } from './memory.ts';
import { HOUR, pointsWithin } from './recent.ts';
import { createHistoryRows, type HistoryRows, type RowsDeps } from './rows.ts';
import { isOfFamily, metricOf } from './series-name.ts';

export interface HistoryLimits {
  /** Retention (ms); 0 disables the history. */
  readonly keep: number;
  readonly maxBytes: number;
}

/** Records and reads samples of an account. Do not call `sample` concurrently. */
export interface Recorder extends AccountHistory {
  /** Adds a sample with one value per series, at most once a minute. Committing `unsaved` stores it. Never rejects. */
  sample(values: ReadonlyMap<string, number>): Promise<void>;
  unsaved(): readonly Change[];
  saved(changes: readonly Change[]): void;
  use(limits: HistoryLimits): void;
  /** Yields the wanted series by hour, oldest first. Rejects with StoreError. */
  hours(from: number, to: number, isWanted: (series: string) => boolean): AsyncIterable<Chunk>;
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
/** Maximum distance between two samples that does not count as a gap (sampling intervals). */
const GAP = 2.5;

/** Series that is 1 if the wall clock was set since the previous sample. */
export const CLOCK_STEPPED = '!stepped';

const minuteOf = (at: number) => Math.floor(at / SAMPLE_EVERY);

/** Deletes old rows and thins large ones in the next commit. */
async function tidy(rows: HistoryRows, { keep, maxBytes }: HistoryLimits, now: number, turns: Yielder): Promise<void> {
  const kept = await rows.sizes();
  for (const hour of kept.keys()) {
    const isOver = keep === 0 || (hour + 1) * HOUR < now - keep;
    if (!isOver) continue;
    rows.set(hour, null);
    kept.delete(hour);
  }
  await shrink(rows, kept, maxBytes * FILLED, hourOf(now), turns);
}

/** Yields hours in order, preferably from memory, because stored ones may be thinned. */
async function* chunks(memory: HistoryMemory, rows: HistoryRows, from: number, to: number, turns: Yielder) {
  const hours = new Set([...(await rows.sizes()).keys(), ...memory.hours()]);
  for (const hour of [...hours].sort((a, b) => a - b)) {
    if (hour < hourOf(from) || hour > hourOf(to)) continue;
    await turns.pass();
    const chunk = memory.whole(hour) ?? (await rows.load(hour)) ?? memory.get(hour);
    if (chunk) yield chunk;
  }
}

function pointsOf(chunks: readonly Chunk[], name: string): readonly Point[] {
  const points: Point[] = [];
  for (const { times, series } of chunks) {
    for (const [index, value] of series.get(name)?.entries() ?? []) {
      if (!Number.isNaN(value)) points.push({ at: times[index] as number, value });
    }
  }
  return points;
}

/** Loads the last hours into memory. Rejects with StoreError. */
export async function openRecorder({ clock, ...deps }: RecorderDeps): Promise<Recorder> {
  const { account, log } = deps;
  const turns = createYielder();
  const rows = createHistoryRows(deps);
  const memory = await openHistoryMemory(rows, clock.now());
  /** Difference between wall time and monotonic time at the last call of `sample`. */
  let offset: number | undefined;
  /** Whether the wall clock was set since the last recorded sample. */
  let isStepped = false;
  let limits: HistoryLimits = { keep: 0, maxBytes: 0 };
  /** Hour of the last clean-up, and the number of samples that the hour had then. */
  let tidied = { hour: 0, length: 0 };
  let isFailing = false;

  async function record(at: number, values: ReadonlyMap<string, number>): Promise<void> {
    const samples = await memory.openAt(at);
    const { lastAt } = samples;
    if (lastAt === undefined || minuteOf(at) > minuteOf(lastAt)) {
      samples.add(at, isStepped ? new Map([...values, [CLOCK_STEPPED, 1]]) : values);
      isStepped = false;
    }
    const hour = hourOf(at);
    const chunk = samples.chunk();
    const length = chunk?.times.length ?? 0;
    if (limits.keep > 0 && chunk) rows.set(hour, encodeChunk(chunk));
    if (tidied.hour !== hour) tidied = { hour, length: 0 };
    const isDue = limits.keep > 0 ? length >= tidied.length + TIDY_EVERY : tidied.length === 0;
    if (!isDue) return;
    await tidy(rows, limits, at, turns);
    tidied = { hour, length };
  }

  async function* hours(from: number, to: number, isWanted: (series: string) => boolean): AsyncGenerator<Chunk> {
    for await (const chunk of chunks(memory, rows, from, to, turns)) {
      const series = new Map([...chunk.series].filter(([name]) => isWanted(name)));
      const picked = pick({ ...chunk, series }, at => at >= from && at <= to);
      if (picked) yield picked;
    }
  }

  return {
    async sample(values) {
      const at = clock.now();
      const last = offset;
      offset = at - clock.monotonic();
      if (last !== undefined && Math.abs(offset - last) > STEP) isStepped = true;
      try {
        await record(at, values);
        isFailing = false;
      } catch (error) {
        if (!isFailing) log.warn({ account, error: String(error) }, 'failed to read history; it may have a gap');
        isFailing = true;
      }
    },
    unsaved: rows.unsaved,
    saved: rows.saved,
    use(next) {
      if (next.keep !== limits.keep || next.maxBytes < limits.maxBytes) tidied = { hour: 0, length: 0 };
      limits = next;
    },
    hours,
    async read({ from, to, families }) {
      const wanted = new Set(families);
      const since = limits.keep > 0 ? Math.max(from, clock.now() - limits.keep) : from;
      const isWanted = (series: string) => {
        const metric = metricOf(series);
        // Destination series are recorded in addition to their sum, only for alert conditions.
        return isOfFamily(metric, wanted) && !/[{,]destination="/.test(series);
      };
      return join(hours(since, to, isWanted));
    },
    recent(series, over) {
      const now = clock.now();
      return pointsWithin(pointsOf(memory.all(), series), now - over, now);
    },
  };
}

/** Joins hours. A time without values marks a gap in charts. */
async function join(hours: AsyncIterable<Chunk>): Promise<RecordedSeries> {
  const times: number[] = [];
  const series = new Map<string, (number | null)[]>();
  const pad = (values: (number | null)[]) => {
    while (values.length < times.length) values.push(null);
  };
  let last: { readonly at: number; readonly step: number } | undefined;
  for await (const { step, times: some, series: columns } of hours) {
    const places = some.map(at => {
      if (last && at - last.at > GAP * SAMPLE_EVERY * Math.max(step, last.step))
        times.push(last.at + last.step * SAMPLE_EVERY);
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
