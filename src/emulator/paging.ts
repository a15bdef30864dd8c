import type { Dialect } from './dialect.ts';
import type { Order, Position, Range, Timeline } from './timeline.ts';

/** A request that cannot be answered: status 400 with this message. */
export class BadRequest extends Error {
  readonly status = 400;
}

export interface ListDefaults {
  readonly count: number;
  readonly order: Order;
}

/** A place in a list; `copy` counts from 0, when a row is listed more than once. */
export interface ListPlace extends Position {
  readonly copy: number;
}

export interface PageRequest {
  readonly count: number;
  readonly range: Range & { readonly after?: ListPlace | undefined };
}

/** The filters of a list by parameter name: each reads the values of a row that it looks at; undefined when the row has none. */
export type Filters<T> = Readonly<
  Record<string, (value: T, time: number, seq: number) => string | readonly string[] | undefined>
>;

/** The query of a request, each parameter with all its values. */
export function parametersOf({ url }: { readonly url: string }): URLSearchParams {
  const start = url.indexOf('?');
  return new URLSearchParams(start === -1 ? '' : url.slice(start));
}

/** The one value of a parameter; an empty one counts as left out. */
function single(parameters: URLSearchParams, name: string): string | undefined {
  const values = parameters.getAll(name);
  if (values.length > 1) throw new BadRequest(`${name} is given more than once`);
  return values[0] || undefined;
}

function wholeNumber(parameters: URLSearchParams, name: string): number | undefined {
  const text = single(parameters, name);
  if (text === undefined) return undefined;
  if (!/^\d{1,15}$/.test(text)) throw new BadRequest(`invalid ${name}: it must be a whole number`);
  return Number(text);
}

export function pageRequest(
  parameters: URLSearchParams,
  defaults: ListDefaults,
  { highCount, order: obeys, fromDateFilter, toDateFilter }: Dialect,
): PageRequest {
  const count = wholeNumber(parameters, 'count') ?? defaults.count;
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
    from: (fromDateFilter === 'exact' && wholeNumber(parameters, 'fromDate')) || 0,
    to: (toDateFilter === 'exact' ? wholeNumber(parameters, 'toDate') : undefined) ?? Number.POSITIVE_INFINITY,
    order: order as Order,
    after: cursor === undefined ? undefined : readCursor(cursor),
  };
  return { count: Math.min(count, defaults.count), range };
}

/** The cursor of a page that ended with the row at this place. Clients must not read anything into it. */
function cursorAt({ time, seq, copy }: ListPlace): string {
  return Buffer.from(copy === 0 ? `${time}-${seq}` : `${time}-${seq}-${copy}`).toString('base64url');
}

function readCursor(cursor: string): ListPlace {
  const match = /^(\d{1,16})-(\d{1,16})(?:-(\d))?$/.exec(Buffer.from(cursor, 'base64url').toString());
  if (!match) throw new BadRequest('invalid cursor');
  return { time: Number(match[1]), seq: Number(match[2]), copy: Number(match[3] ?? 0) };
}

/**
 * Whether a row matches all filters of the request. A filter has one or more values, repeated or separated by commas.
 * `expand` may replace or refuse values. Undefined without filters.
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
    const way = dialect[`${name}Filter` as keyof Dialect];
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

/** `way`: of the dialect; undefined for a parameter without such an option. */
function wantedBy(way: Dialect[keyof Dialect] | undefined, wanted: readonly string[]): (value: string) => boolean {
  if (way === 'prefix') return value => wanted.some(start => value.startsWith(start));
  if (way === 'any-case') {
    const lowered = new Set(wanted.map(each => each.toLowerCase()));
    return value => lowered.has(value.toLowerCase());
  }
  const exact = new Set(wanted);
  return value => exact.has(value);
}

export interface Page<T> {
  readonly rows: (ListPlace & { readonly value: T })[];
  readonly cursor?: string;
}

interface Repetition<T> {
  /** How often a row is listed, next to itself; once when absent. */
  readonly copies?: ((value: T, time: number) => number) | undefined;
  /** A page begins with the row that its cursor names, the last of the page before, and not after it. */
  readonly repeats?: boolean;
}

/** Returns the next rows of several timelines. Looks one match ahead, so the last page never has a cursor. */
export function page<T extends object>(
  timelines: readonly Timeline<T>[],
  { count, range }: PageRequest,
  matches: ((value: T, time: number, seq: number) => boolean) | undefined,
  { copies, repeats = false }: Repetition<T> = {},
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
