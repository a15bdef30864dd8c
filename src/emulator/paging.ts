import type { Dialect } from './dialect.ts';
import type { Order, Position, RowTimeline, TimelineRange } from './timeline.ts';

export class BadRequest extends Error {
  readonly status = 400;
}

/** A place in a list. `copy`: index among duplicates of the row. */
export interface ListPlace extends Position {
  readonly copy: number;
}

export interface PageRequest {
  readonly count: number;
  readonly range: TimelineRange & { readonly after?: ListPlace | undefined };
}

/** Filters by parameter name. Each returns the values of a row to compare with the parameter, or undefined. */
export type Filters<T> = Readonly<
  Record<string, (value: T, time: number, seq: number) => string | readonly string[] | undefined>
>;

export function parametersOf({ url }: { readonly url: string }): URLSearchParams {
  const start = url.indexOf('?');
  return new URLSearchParams(start === -1 ? '' : url.slice(start));
}

/** Returns the value of a parameter; undefined if it is missing or empty. Throws a BadRequest if it occurs more than once. */
function single(parameters: URLSearchParams, name: string): string | undefined {
  const values = parameters.getAll(name);
  if (values.length > 1) throw new BadRequest(`${name} occurs more than once`);
  return values[0] || undefined;
}

export function wholeParameter(parameters: URLSearchParams, name: string): number | undefined {
  const text = single(parameters, name);
  if (text === undefined) return undefined;
  if (!/^\d{1,15}$/.test(text)) throw new BadRequest(`invalid ${name}: it must be a whole number`);
  return Number(text);
}

export function pageRequest(
  parameters: URLSearchParams,
  defaults: { readonly count: number; readonly order: Order },
  { highCount, order: obeys, filters }: Dialect,
): PageRequest {
  const count = wholeParameter(parameters, 'count') ?? defaults.count;
  if (count === 0) throw new BadRequest('invalid count: it must be above 0');
  if (count > defaults.count && highCount === 'refused') {
    throw new BadRequest(`invalid count: it must be at most ${defaults.count}`);
  }
  const order = (obeys === 'obeyed' && single(parameters, 'order')) || defaults.order;
  if (order !== 'earliestFirst' && order !== 'latestFirst') {
    throw new BadRequest('invalid order: it must be earliestFirst or latestFirst');
  }
  const cursor = single(parameters, 'cursor');
  const range = {
    from: (filters.fromDate !== 'ignored' && wholeParameter(parameters, 'fromDate')) || 0,
    to: (filters.toDate !== 'ignored' ? wholeParameter(parameters, 'toDate') : undefined) ?? Number.POSITIVE_INFINITY,
    order: order as Order,
    after: cursor === undefined ? undefined : readCursor(cursor),
  };
  return { count: Math.min(count, defaults.count), range };
}

/** Returns a cursor, opaque to clients, for the page after this place. */
function cursorAt({ time, seq, copy }: ListPlace): string {
  return Buffer.from(copy === 0 ? `${time}-${seq}` : `${time}-${seq}-${copy}`).toString('base64url');
}

function readCursor(cursor: string): ListPlace {
  const match = /^(\d{1,16})-(\d{1,16})(?:-(\d))?$/.exec(Buffer.from(cursor, 'base64url').toString());
  if (!match) throw new BadRequest('invalid cursor');
  return { time: Number(match[1]), seq: Number(match[2]), copy: Number(match[3] ?? 0) };
}

/**
 * Returns a predicate that matches rows that pass all filters; undefined if there are no filters. Values may be repeated or
 * comma-separated. `expand` may replace or reject them.
 */
export function matcher<T>(
  parameters: URLSearchParams,
  filters: Filters<T>,
  dialect: Dialect,
  expand: (name: string, values: readonly string[]) => readonly string[],
): ((value: T, time: number, seq: number) => boolean) | undefined {
  const tests = Object.entries(filters).flatMap(([name, reads]) => {
    const given = parameters.getAll(name);
    const values = given.flatMap(value => value.split(',')).filter(value => value !== '');
    const way = dialect.filters[name];
    if (values.length === 0 || way === 'ignored') return [];
    return [{ reads, isWanted: wantedBy(way, [...given, ...expand(name, values)]) }];
  });
  if (tests.length === 0) return undefined;
  return (value, time, seq) =>
    tests.every(({ reads, isWanted }) => {
      const found = reads(value, time, seq);
      if (found === undefined) return false;
      return typeof found === 'string' ? isWanted(found) : found.some(isWanted);
    });
}

function wantedBy(way: Dialect['filters'][string] | undefined, wanted: readonly string[]): (value: string) => boolean {
  if (way === 'prefix') return value => wanted.some(start => value.startsWith(start));
  if (way === 'any-case') {
    const lowered = new Set(wanted.map(each => each.toLowerCase()));
    return value => lowered.has(value.toLowerCase());
  }
  const exact = new Set(wanted);
  return value => exact.has(value);
}

export interface RowPage<T> {
  readonly rows: (ListPlace & { readonly value: T })[];
  readonly cursor?: string;
}

interface Repetition<T> {
  /** How often a row is listed in succession; default 1. */
  readonly copies?: ((value: T, time: number) => number) | undefined;
  /** Whether a page starts with the last row of the previous page. */
  readonly repeats?: boolean;
}

/** Returns the next rows of several timelines. Reads one row ahead, so that the last page has no cursor. */
export function page<T extends object>(
  timelines: readonly RowTimeline<T>[],
  { count, range }: PageRequest,
  matches: ((value: T, time: number, seq: number) => boolean) | undefined,
  { copies, repeats = false }: Repetition<T> = {},
): RowPage<T> {
  const { after } = range;
  // A page with only the repeated row would make no progress.
  const most = repeats && after ? Math.max(count, 2) : count;
  const found = timelines.map(timeline => {
    const rows: RowPage<T>['rows'] = [];
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

/** Extends the range to include the cursor's row, which may be repeated or have unlisted copies. */
function withFirst({ after, ...range }: PageRequest['range']): TimelineRange {
  if (!after) return range;
  const before = range.order === 'earliestFirst' ? -1 : 1;
  return { ...range, after: { time: after.time, seq: after.seq + before } };
}
