import type { DlqEntry } from '../../model/message.ts';
import type { Selection } from './selection.ts';

/** Entries of a selection in a time range (ms, both ends included, open if undefined). */
export interface Task {
  readonly selection: Selection;
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

/** Which time of an entry the service compares with `fromDate` and `toDate`. */
export type DateField = 'entry' | 'creation';

export function timeOf({ enteredAt, createdAt }: DlqEntry, meaning: DateField): number | undefined {
  return meaning === 'entry' ? (enteredAt ?? createdAt) : (createdAt ?? enteredAt);
}

/** Whether an entry lacks the time that the service compares, so that it may be in no window. */
export const isUntimed = ({ enteredAt, createdAt }: DlqEntry, meaning: DateField) =>
  (meaning === 'entry' ? enteredAt : createdAt) === undefined;

/** Minimum number of pages of a selection that is read in windows. */
const MIN_PAGES = 100;
/** Minimum pages per window. Each window wastes half a page on average. */
const WINDOW_PAGES = 16;
/** Maximum number of windows: three per reader. More would cost requests without saving time. */
const MAX_WINDOWS = 48;
/** Every sixth walk reads without dates, to find entries that are in no window. It takes the fewest requests, but more time. */
const UNDATED_EVERY = 6;

/**
 * Plans a complete read. A large selection is split into windows that had equal numbers of entries in the last complete read. The
 * newest window comes first, because new entries make it the longest. A service may omit entries without a time from every window,
 * so a selection with such entries is read without dates.
 */
export function planWalk(selection: Selection): Task[] {
  const { times, walks, hasUntimed } = selection;
  if (times.length < MIN_PAGES || hasUntimed || walks % UNDATED_EVERY === 0) return [{ selection }];
  const windows = Math.min(MAX_WINDOWS, Math.floor(times.length / WINDOW_PAGES));
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
