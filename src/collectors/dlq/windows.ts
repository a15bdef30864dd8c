import type { DlqEntry } from '../../model/message.ts';
import type { Selection } from './selection.ts';

/** A part of a selection: entries between two times, milliseconds, both included; open where they are undefined. */
export interface Task {
  readonly selection: Selection;
  readonly from?: number | undefined;
  readonly to?: number | undefined;
  /** Splits above it; undefined for what was learnt and is not split. */
  readonly depth?: number | undefined;
}

/** Which of an entry's times `fromDate` and `toDate` mean. */
export type Meaning = 'entry' | 'creation';

export function timeOf({ enteredAt, createdAt }: DlqEntry, meaning: Meaning): number | undefined {
  return meaning === 'entry' ? (enteredAt ?? createdAt) : (createdAt ?? enteredAt);
}

/** Windows have as many pages or more: each costs half a page on average, its last one. */
const LEAST_PAGES = 16;
/** More windows would only cost more: there are at least three for each of those that read. */
const MOST_WINDOWS = 48;

/**
 * Splits a selection into windows of equal size by the last complete read. The newest comes first, because new entries make
 * it the longest.
 */
export function planWalk(selection: Selection): Task[] {
  const { times } = selection;
  const windows = Math.min(MOST_WINDOWS, Math.floor(times.length / LEAST_PAGES));
  if (windows < 2) return [{ selection, depth: times.length === 0 ? 0 : undefined }];
  const edges = new Set<number>();
  for (let window = 1; window < windows; window += 1) {
    edges.add(times[Math.floor((window * times.length) / windows)] as number);
  }
  const latestFirst = [...edges].reverse();
  return [...latestFirst, undefined].map((from, index) => {
    const next = latestFirst[index - 1];
    return { selection, from, to: next === undefined ? undefined : next - 1 };
  });
}

const DAY = 86_400_000;
/** Ages at which a queue is cut that was never read: entries are mostly young, and kept for weeks or months. */
const AGES = [90 * DAY, 30 * DAY, 7 * DAY, 3 * DAY, DAY, DAY / 4];

/** A selection that has more pages than this is read in windows from the first time on. */
const SEQUENTIAL_PAGES = 8;
/** A window that seems to have more pages is cut, into parts of about half as many. */
const LARGE = 40;
const MOST_PARTS = 16;
const DEEPEST = 5;

/**
 * Splits a window that has too many rows; undefined if it should be read to its end. `pages`: number read; `rows`: those of
 * the last one. Rows are mostly ordered by time, so the span of a page shows the density.
 */
export function splitTask(
  task: Task,
  pages: number,
  rows: readonly DlqEntry[],
  now: number,
  meaning: Meaning,
): Task[] | undefined {
  const { selection, from, to, depth } = task;
  if (depth === undefined || depth >= DEEPEST) return undefined;
  if (depth === 0) {
    if (pages < SEQUENTIAL_PAGES) return undefined;
    const edges = AGES.map(age => now - age);
    return [undefined, ...edges].map((edge, index) => {
      const next = edges[index];
      return { selection, from: edge, to: next === undefined ? undefined : next - 1, depth: 1 };
    });
  }
  const times = rows.flatMap(row => timeOf(row, meaning) ?? []);
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const start = from ?? first;
  const end = to ?? Math.max(now, last);
  const estimate = (end - start) / Math.max(1, last - first);
  if (pages > 1 || times.length < 2 || !(estimate > LARGE) || end - start < MOST_PARTS) return undefined;
  const parts = Math.min(MOST_PARTS, Math.ceil((estimate * 2) / LARGE));
  const width = Math.ceil((end - start + 1) / parts);
  return Array.from({ length: parts }, (_, part) => ({
    selection,
    from: part === 0 ? from : start + part * width,
    to: part === parts - 1 ? to : start + (part + 1) * width - 1,
    depth: depth + 1,
  }));
}
