import type { Cost } from '../collector.ts';
import { eachWithin } from './event-table.ts';
import type { Span } from './expectations.ts';
import type { Checkpoint, Memory } from './memory.ts';
import { noPeak, notePeak, peakOf } from './peak.ts';

/** The overlap is read again at this interval, or at its own length where that is shorter, milliseconds. */
const SETTLE_EVERY = 60_000;
/** How long the greatest lateness counts at least, milliseconds. */
const LATENESS_WINDOW = 3_600_000;
/** What every read repeats beyond the greatest lateness: a quarter of that, and this many milliseconds. */
const MARGIN = 500;
/** Rows that are not worth a request of their own. */
const FEW = 20;

const DAY = 86_400_000;
const ROW = 1000;

/**
 * Cost of reading the log for a day that is as busy as the last overlap. With few rows, each round reads all of them;
 * otherwise each row is read when it is new, when it is older than the overlap, and by the sweep.
 */
export function readingPerDay(
  { requests, bytes }: Cost,
  rounds: number,
  { overlap, lateSweep }: { readonly overlap: number; readonly lateSweep: number },
): Cost {
  const log = (bytes * DAY) / overlap;
  const once = log + (lateSweep > overlap ? log : 0);
  const whole = { requests: rounds * requests, bytes: rounds * bytes + once };
  if (bytes < FEW * ROW || log >= rounds * bytes) return whole;
  return { requests: whole.requests + DAY / Math.min(SETTLE_EVERY, overlap), bytes: log + once };
}

/** How far before the newest event every read begins, milliseconds. */
const readBackOf = ({ lateness }: Checkpoint, overlap: number) =>
  lateness ? Math.min(overlap, Math.ceil(peakOf(lateness) * 1.25) + MARGIN) : overlap;

export interface ReadBack {
  readonly skip: Span | undefined;
  /** Whether it comes to everything that has become older than the overlap. */
  readonly settles: boolean;
}

function remembered({ chunks }: Memory, from: number, to: number): number {
  let events = 0;
  for (const chunk of chunks.values()) {
    eachWithin(chunk, from, to, () => {
      events += 1;
    });
  }
  return events;
}

/**
 * How far a read goes back: as far as events were late recently, and now and then to everything that has become older than
 * the overlap since. With few rows, always to the overlap.
 */
export function planReadBack(memory: Memory, until: number, overlap: number): ReadBack {
  const { checkpoint, recent } = memory;
  if (!recent || checkpoint?.newest === undefined) return { skip: undefined, settles: true };
  const { newest, dedupeFrom, foundAt, readTo, settledAt = Number.NEGATIVE_INFINITY } = checkpoint;
  const settles = until - settledAt >= Math.min(SETTLE_EVERY, overlap);
  const settled = newest + Math.max(0, until - foundAt) - overlap;
  const from = settles ? Math.max(dedupeFrom, settled + 1) : dedupeFrom;
  const to = newest - readBackOf(checkpoint, overlap) - 1;
  // What comes while the log is not read is read once more, too, when something was left out before it.
  const isWorth = remembered(memory, from + Math.max(0, until - readTo), to) >= FEW;
  return isWorth ? { skip: { from, to }, settles } : { skip: undefined, settles: true };
}

/**
 * Records how much older than the newest known event a new event is. Bounded, because rare outliers only show that reads go
 * back too little.
 */
export function noteLateness(checkpoint: Checkpoint, lateness: number, until: number, overlap: number): void {
  const most = Math.min(overlap, 2 * readBackOf(checkpoint, overlap));
  checkpoint.lateness ??= { ...noPeak(until), before: overlap };
  notePeak(checkpoint.lateness, Math.min(lateness, most), until, LATENESS_WINDOW);
}
