import { MINUTE } from '../kit/duration.ts';
import { type Chunk, type OpenChunk, openChunk, pick } from './chunk.ts';
import { HOUR } from './recent.ts';
import type { HistoryRows } from './rows.ts';

/** Samples of the current hour and the recent past, by hour since the Unix epoch. */
export type HistoryMemory = Awaited<ReturnType<typeof openHistoryMemory>>;

/** Minimum span in memory (ms): 90 minutes and the previous sample. */
const SPAN = 93 * MINUTE;

export const hourOf = (at: number) => Math.floor(at / HOUR);

/** Loads the last hours before `now` (ms since the Unix epoch). Rejects with StoreError. */
export async function openHistoryMemory(rows: HistoryRows, now: number) {
  const past = new Map<number, Chunk>();
  for (let hour = hourOf(now - SPAN); hour <= hourOf(now); hour += 1) {
    const chunk = await rows.load(hour);
    if (chunk) past.set(hour, chunk);
  }
  /** Hours whose first samples have been evicted. */
  const cut = new Set<number>();
  let open: { readonly hour: number; readonly samples: OpenChunk } | undefined;

  const get = (hour: number) => (open?.hour === hour ? open.samples.chunk() : past.get(hour));
  const hours = () => [...past.keys(), ...(open ? [open.hour] : [])];
  const whole = (hour: number) => (cut.has(hour) ? undefined : get(hour));

  /** Evicts old samples, because a process may have a thousand accounts. */
  function trim(at: number, hour: number): void {
    const from = at - SPAN;
    for (const each of past.keys()) {
      const isFirst = each === hourOf(from) && each < hour - 1;
      const kept = isFirst && !cut.has(each) ? get(each) : undefined;
      const last = kept && pick(kept, time => time >= from);
      if (last) {
        past.set(each, last);
        cut.add(each);
      } else if (each < hourOf(from) || each >= hour) past.delete(each);
    }
    for (const each of cut) if (!past.has(each)) cut.delete(each);
  }

  return {
    whole,
    get,
    all: (): readonly Chunk[] =>
      hours()
        .sort((a, b) => a - b)
        .flatMap(hour => get(hour) ?? []),
    hours,
    /** Opens the hour of `at`. Drops later samples, which exist if the clock was set back. Rejects with StoreError. */
    async openAt(at: number): Promise<OpenChunk> {
      const hour = hourOf(at);
      if (open?.hour === hour && (open.samples.lastAt ?? at) <= at) {
        if (past.size > 1) trim(at, hour);
        return open.samples;
      }
      const known = whole(hour) ?? (await rows.load(hour)) ?? get(hour);
      const finished = open?.samples.chunk();
      if (open && finished && open.hour < hour) past.set(open.hour, finished);
      const samples = openChunk(known && pick(known, time => time < at));
      open = { hour, samples };
      trim(at, hour);
      return samples;
    },
  };
}
