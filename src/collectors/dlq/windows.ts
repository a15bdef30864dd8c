import type { DlqEntry } from '../../model/message.ts';
import type { Selection } from './selection.ts';

/** Entries of a selection in a time range (ms, both ends included, open if undefined). */
export interface Task {
  readonly selection: Selection;
  readonly from?: number | undefined;
  readonly to?: number | undefined;
  /** Number of splits so far; undefined for a task that was planned from the last walk and is never split. */
  readonly depth?: number | undefined;
}

/** Which time of an entry the service compares with `fromDate` and `toDate`. */
export type DateField = 'entry' | 'creation';

export function timeOf({ enteredAt, createdAt }: DlqEntry, meaning: DateField): number | undefined {
  return meaning === 'entry' ? (enteredAt ?? createdAt) : (createdAt ?? enteredAt);
}

/** Minimum pages per window. Each window wastes half a page on average. */
const MIN_PAGES = 16;
/** Maximum number of windows: three per reader. More would cost requests without saving time. */
const MAX_WINDOWS = 48;

/**
 * Splits a selection into windows that had equal numbers of entries in the last complete read. The newest window comes first,
 * because new entries make it the longest.
 */
export function planWalk(selection: Selection): Task[] {
  const { times } = selection;
  const windows = Math.min(MAX_WINDOWS, Math.floor(times.length / MIN_PAGES));
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
/** Ages at which an unknown queue is split (ms). Most entries are recent. */
const AGES = [90 * DAY, 30 * DAY, 7 * DAY, 3 * DAY, DAY, DAY / 4];

/** Number of pages after which an unknown selection is split. */
const SEQUENTIAL_PAGES = 8;
/** Estimated number of pages above which a window is split into parts of about half this size. */
const LARGE = 40;
const MAX_PARTS = 16;
const MAX_DEPTH = 5;

/**
 * Splits a window with too many rows, or returns undefined if it should be read to the end. `pages`: pages read so far;
 * `rows`: the last page. Rows are mostly ordered by time, so the time span of a page shows the density.
 */
export function splitTask(
  task: Task,
  pages: number,
  rows: readonly DlqEntry[],
  now: number,
  meaning: DateField,
): Task[] | undefined {
  const { selection, from, to, depth } = task;
  if (depth === undefined || depth >= MAX_DEPTH) return undefined;
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
  if (pages > 1 || times.length < 2 || !(estimate > LARGE) || end - start < MAX_PARTS) return undefined;
  const parts = Math.min(MAX_PARTS, Math.ceil((estimate * 2) / LARGE));
  const width = Math.ceil((end - start + 1) / parts);
  return Array.from({ length: parts }, (_, part) => ({
    selection,
    from: part === 0 ? from : start + part * width,
    to: part === parts - 1 ? to : start + (part + 1) * width - 1,
    depth: depth + 1,
  }));
}
