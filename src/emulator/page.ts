import { cursorAt, type ListPlace, type PageRequest } from './query.ts';
import type { Range, Timeline } from './timeline.ts';

export interface Page<T> {
  readonly rows: (ListPlace & { readonly value: T })[];
  /** Absent at the end of the list. */
  readonly cursor?: string;
}

/** Where a list is not what it should be. */
export interface Untidiness<T> {
  /** How often a row is listed, next to itself; once when absent. */
  readonly copies?: ((value: T, time: number) => number) | undefined;
  /** A page begins with the row that its cursor names, the last of the page before, and not after it. */
  readonly repeats?: boolean;
}

/**
 * The next rows of a list that consists of several timelines. It looks one match further than the page, so a last page
 * never comes with a cursor.
 */
export function page<T extends object>(
  timelines: readonly Timeline<T>[],
  { count, range }: PageRequest,
  matches: ((value: T, time: number, seq: number) => boolean) | undefined,
  { copies, repeats = false }: Untidiness<T> = {},
): Page<T> {
  const { after } = range;
  // A page of one row that repeats the one before would never end.
  const most = repeats && after ? Math.max(count, 2) : count;
  const found = timelines.map(timeline => {
    const rows: Page<T>['rows'] = [];
    timeline.walk(withFirst(range), (value, time, seq) => {
      if (matches && !matches(value, time, seq)) return true;
      const isFirst = after !== undefined && time === after.time && seq === after.seq;
      const end = copies?.(value, time) ?? 1;
      for (let copy = isFirst ? after.copy + (repeats ? 0 : 1) : 0; copy < end; copy++)
        rows.push({ value, time, seq, copy });
      return rows.length <= most;
    });
    return rows;
  });
  const rows = found.flat();
  if (found.length > 1) {
    const sign = range.order === 'earliestFirst' ? 1 : -1;
    rows.sort((a, b) => sign * (a.time - b.time || a.seq - b.seq));
  }
  if (rows.length <= most) return { rows };
  rows.length = most;
  return { rows, cursor: cursorAt(rows[most - 1] as ListPlace) };
}

/** The range with the row that the cursor names at its beginning: it may be listed again, or have a copy that was not listed. */
function withFirst({ after, ...range }: PageRequest['range']): Range {
  if (!after) return range;
  const before = range.order === 'earliestFirst' ? -1 : 1;
  return { ...range, after: { time: after.time, seq: after.seq + before } };
}
