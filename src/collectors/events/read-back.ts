import { eachWithin } from './event-table.ts';
import type { TimeSpan } from './expectations.ts';
import type { Checkpoint, Memory } from './memory.ts';
import { noPeak, notePeak, peakOf } from './peak.ts';

/** Interval at which events that have become older than the overlap are read again, or the overlap if that is shorter (ms). */
const SETTLE_EVERY = 60_000;
/** Minimum time for which a peak lateness is retained (ms). */
const LATENESS_WINDOW = 3_600_000;
/** Margin (ms): each read starts 1.25 times the peak lateness, plus this margin, before the newest event. */
const MARGIN = 500;
/** Minimum number of rows for which a part of the overlap is skipped, because skipping takes an additional request. */
const FEW = 20;

/** Returns how far before the newest event every read starts (ms). */
const readBackOf = ({ lateness }: Checkpoint, overlap: number) =>
  lateness ? Math.min(overlap, Math.ceil(peakOf(lateness) * 1.25) + MARGIN) : overlap;

export interface ReadBack {
  readonly skip: TimeSpan | undefined;
  /** Whether the read includes everything that has become older than the overlap. */
  readonly settles: boolean;
}

function countKept({ chunks }: Memory, from: number, to: number): number {
  let events = 0;
  for (const chunk of chunks.values()) {
    eachWithin(chunk, from, to, () => {
      events += 1;
    });
  }
  return events;
}

/**
 * Plans what to read again: the newest part of the overlap, as long as the peak lateness requires, and periodically also events
 * that have become older than the overlap. If the part to skip has few rows, everything is read again.
 */
export function planReadBack(memory: Memory, until: number, overlap: number): ReadBack {
  const { checkpoint, recent } = memory;
  if (!recent || checkpoint?.newest === undefined) return { skip: undefined, settles: true };
  const { newest, dedupeFrom, foundAt, readTo, settledAt = Number.NEGATIVE_INFINITY } = checkpoint;
  const settles = until - settledAt >= Math.min(SETTLE_EVERY, overlap);
  const settled = newest + Math.max(0, until - foundAt) - overlap;
  const from = settles ? Math.max(dedupeFrom, settled + 1) : dedupeFrom;
  const to = newest - readBackOf(checkpoint, overlap) - 1;
  // Events that occurred during a pause in reading must be read a second time anyway.
  const isWorthwhile = countKept(memory, from + Math.max(0, until - readTo), to) >= FEW;
  return isWorthwhile ? { skip: { from, to }, settles } : { skip: undefined, settles: true };
}

/**
 * Records how much older a new event is than the newest known one. The value is bounded, so that one outlier does not lengthen
 * all reads of the next hour.
 */
export function noteLateness(checkpoint: Checkpoint, lateness: number, until: number, overlap: number): void {
  const limit = Math.min(overlap, 2 * readBackOf(checkpoint, overlap));
  checkpoint.lateness ??= { ...noPeak(until), before: overlap };
  notePeak(checkpoint.lateness, Math.min(lateness, limit), until, LATENESS_WINDOW);
}
