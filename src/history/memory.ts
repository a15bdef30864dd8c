import { createYielder } from '../kit/yielder.ts';
import type { Point } from '../model/history.ts';
import { type Chunk, type OpenChunk, openChunk, pick, pickSeries, pointsOf } from './chunk.ts';
import { MAX_GAP } from './points.ts';
import { ALWAYS, HOUR } from './recent.ts';
import type { HistoryRows } from './rows.ts';

/** Samples by hour since the Unix epoch: all series of the last 90 minutes, and watched series of longer windows. */
export type HistoryMemory = Awaited<ReturnType<typeof openHistoryMemory>>;

/** Series that a window needs for longer than 90 minutes. */
export interface Watched {
  /** Length of the window (ms). */
  readonly over: number;
  isWatched(series: string): boolean;
}

/** Windows shorter than this need more than a sample a minute (ms). */
export const SHORT = 120_000;

/** Minimum span of all series in memory (ms). */
const SPAN = ALWAYS + MAX_GAP;

export const hourOf = (at: number) => Math.floor(at / HOUR);

/** Loads the last hours before `now` (ms since the Unix epoch). Rejects with StoreError. */
export async function openHistoryMemory(rows: HistoryRows, now: number) {
  const past = new Map<number, Chunk>();
  /** Values for short windows. */
  let latest = openChunk();
  let open: { readonly hour: number; readonly samples: OpenChunk } | undefined;
  let watched: Watched = { over: 0, isWatched: () => false };
  /** The current hour and the first one with all series at the last call of `trim`. */
  let trimmed = '';

  async function load(from: number, to: number, isKept?: Watched['isWatched']): Promise<void> {
    const turns = createYielder();
    for (let hour = from; hour <= to; hour += 1) {
      await turns.pass();
      const chunk = await rows.load(hour);
      if (chunk) past.set(hour, isKept ? pickSeries(chunk, isKept) : chunk);
    }
  }

  /** Drops samples that no window needs, because a process may have a thousand accounts. */
  function trim(at: number): void {
    const [hour, first] = [hourOf(at), hourOf(at - SPAN)];
    if (trimmed === `${hour} ${first}`) return;
    trimmed = `${hour} ${first}`;
    const firstWatched = hourOf(at - watched.over - MAX_GAP);
    for (const [each, chunk] of past) {
      if (each >= hour || each < Math.min(first, firstWatched)) past.delete(each);
      else if (each < first) past.set(each, pickSeries(chunk, watched.isWatched));
    }
  }

  await load(hourOf(now - SPAN), hourOf(now));
  const hours = () => [...past.keys(), ...(open ? [open.hour] : [])].sort((a, b) => a - b);
  const get = (hour: number) => (open?.hour === hour ? open.samples.chunk() : past.get(hour));
  const since = (from: number) => hours().flatMap(hour => (hour < hourOf(from - MAX_GAP) ? [] : (get(hour) ?? [])));
  return {
    hours,
    get,
    chunks: () => since(0),
    points(series: string, from: number, to: number): readonly Point[] {
      const fine = to - from < SHORT ? latest.chunk() : undefined;
      return pointsOf(fine?.series.has(series) ? [fine] : since(from), series, from, to);
    },
    /** Adds values for short windows. */
    note(at: number, values: ReadonlyMap<string, number>): void {
      const last = latest.chunk();
      latest = openChunk(last && pick(last, time => time >= at - SHORT - MAX_GAP && time < at));
      latest.add(at, values);
    },
    /** Keeps watched series in memory and loads their older hours. Rejects with StoreError. */
    async watch(next: Watched, at: number): Promise<void> {
      watched = next;
      await load(hourOf(at - next.over - MAX_GAP), hourOf(at - SPAN) - 1, next.isWatched);
    },
    /**
     * Opens the hour of `at`. Drops samples that are later by the wall clock, which was last set at `steppedAt`. Rejects with
     * StoreError.
     */
    async openAt(at: number, steppedAt: number): Promise<OpenChunk> {
      const hour = hourOf(at);
      if (open?.hour !== hour || (open.samples.lastAt ?? at) > at) {
        const known = open?.hour === hour ? get(hour) : ((await rows.load(hour)) ?? get(hour));
        // A sample of a new hour that seems to follow the change of the clock was recorded before it.
        const end = open && open.hour !== hour ? Math.min(at, steppedAt) : at;
        const finished = open?.samples.chunk();
        if (open && finished && open.hour < hour) past.set(open.hour, finished);
        open = { hour, samples: openChunk(known && pick(known, time => time < end)) };
      }
      trim(at);
      return open.samples;
    },
  };
}
