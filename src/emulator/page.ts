import { cursorAt, type PageRequest } from './query.ts';
import type { Position, Timeline } from './timeline.ts';

export interface Page<R> {
  readonly rows: R[];
  /** Absent at the end of the list. */
  readonly cursor?: string;
}

/** The next rows of a list. It looks one match further than the page, so a last page never comes with a cursor. */
export function page<T extends object, R>(
  timeline: Timeline<T>,
  { count, range }: PageRequest,
  matches: ((value: T, time: number, seq: number) => boolean) | undefined,
  render: (value: T, time: number, seq: number) => R,
): Page<R> {
  const rows: R[] = [];
  let last: Position | undefined;
  let hasMore = false;
  timeline.walk(range, (value, time, seq) => {
    if (matches && !matches(value, time, seq)) return true;
    if (rows.length === count) {
      hasMore = true;
      return false;
    }
    rows.push(render(value, time, seq));
    last = { time, seq };
    return true;
  });
  return hasMore && last ? { rows, cursor: cursorAt(last) } : { rows };
}
