import type { TimeSpan } from './expectations.ts';
import type { Memory } from './memory.ts';

/** Interval at which events that have become older than the overlap are read again, or the overlap if that is shorter (ms). */
const SETTLE_EVERY = 60_000;
/** Time before the newest event at which every read starts, unless the overlap is shorter (ms). Most events are delayed by less. */
const READ_BACK = 10_000;
/** Minimum number of rows for which a part of the overlap is skipped, because skipping takes an additional request. */
const FEW = 20;

export interface ReadBack {
  readonly skip: TimeSpan | undefined;
  /** Whether the read includes everything that has become older than the overlap. */
  readonly settles: boolean;
}

function countKept({ chunks }: Memory, from: number, to: number): number {
  let events = 0;
  for (const chunk of chunks.values()) {
    for (const { time } of chunk) if (time >= from && time <= to) events += 1;
  }
  return events;
}

/**
 * Plans what to read again: the last `READ_BACK`, and periodically also events that have become older than the overlap. If the
 * part to skip has few rows, everything is read again.
 */
export function planReadBack(memory: Memory, until: number, overlap: number): ReadBack {
  const { checkpoint, recent } = memory;
  if (!recent || checkpoint?.newest === undefined) return { skip: undefined, settles: true };
  const { newest, dedupeFrom, foundAt, readTo, settledAt = Number.NEGATIVE_INFINITY } = checkpoint;
  const settles = until - settledAt >= Math.min(SETTLE_EVERY, overlap);
  const settled = newest + Math.max(0, until - foundAt) - overlap;
  const from = settles ? Math.max(dedupeFrom, settled + 1) : dedupeFrom;
  const to = newest - Math.min(overlap, READ_BACK) - 1;
  // Events that occurred during a pause in reading must be read a second time anyway.
  const isWorthwhile = countKept(memory, from + Math.max(0, until - readTo), to) >= FEW;
  return isWorthwhile ? { skip: { from, to }, settles } : { skip: undefined, settles: true };
}
