import { cursorAt, type PageRequest } from './query.ts';
import type { Position, Timeline } from './timeline.ts';

export interface Page<T> {
  readonly rows: (Position & { readonly value: T })[];
  /** Absent at the end of the list. */
  readonly cursor?: string;
}

/**
 * The next rows of a list that consists of several timelines. It looks one match further than the page, so a last page
 * never comes with a cursor.
 */
export function page<T extends object>(
  timelines: readonly Timeline<T>[],
  { count, range }: PageRequest,
  matches: ((value: T, time: number, seq: number) => boolean) | undefined,
): Page<T> {
  const found = timelines.map(timeline => {
    const rows: Page<T>['rows'] = [];
    timeline.walk(range, (value, time, seq) => {
      if (!matches || matches(value, time, seq)) rows.push({ value, time, seq });
      return rows.length <= count;
    });
    return rows;
  });
  const rows = found.flat();
  if (found.length > 1) {
    const sign = range.order === 'earliestFirst' ? 1 : -1;
    rows.sort((a, b) => sign * (a.time - b.time || a.seq - b.seq));
  }
  if (rows.length <= count) return { rows };
  rows.length = count;
  return { rows, cursor: cursorAt(rows[count - 1] as Position) };
}
