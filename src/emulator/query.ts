import type { Dialect } from './dialect.ts';
import type { Order, Position, Range } from './timeline.ts';

/** A request that cannot be answered; its message is for whoever sent it. Answered with status 400. */
export class BadRequest extends Error {
  readonly status = 400;
}

/** What a list gives when the request does not say. */
export interface ListDefaults {
  /** Rows of a page: the default and the most. */
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

/** Reads the value of a row that a filter looks at; undefined when the row has none. */
type Reads<T> = (value: T, time: number, seq: number) => string | readonly string[] | undefined;

/** The filters of a list by parameter name. */
export type Filters<T> = Readonly<Record<string, Reads<T>>>;

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

/** Reads count, order, fromDate, toDate and cursor. */
export function pageRequest(
  parameters: URLSearchParams,
  defaults: ListDefaults,
  { highCount, order: obeys }: Dialect,
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
    from: wholeNumber(parameters, 'fromDate') ?? 0,
    to: wholeNumber(parameters, 'toDate') ?? Number.POSITIVE_INFINITY,
    order: order as Order,
    after: cursor === undefined ? undefined : readCursor(cursor),
  };
  return { count: Math.min(count, defaults.count), range };
}

/** The cursor of a page that ended with the row at this place. Clients must not read anything into it. */
export function cursorAt({ time, seq, copy }: ListPlace): string {
  return Buffer.from(copy === 0 ? `${time}-${seq}` : `${time}-${seq}-${copy}`).toString('base64url');
}

function readCursor(cursor: string): ListPlace {
  const match = /^(\d{1,16})-(\d{1,16})(?:-(\d))?$/.exec(Buffer.from(cursor, 'base64url').toString());
  if (!match) throw new BadRequest('invalid cursor');
  return { time: Number(match[1]), seq: Number(match[2]), copy: Number(match[3] ?? 0) };
}

/**
 * Whether a row matches every filter that the request names: one of the values within a filter, all filters.
 * Values are repeated or separated by commas; one with a comma is also taken as it stands. `expand` may replace the values
 * of a filter or refuse them. Undefined when the request names none.
 */
export function matcher<T>(
  parameters: URLSearchParams,
  filters: Filters<T>,
  expand: (name: string, values: readonly string[]) => readonly string[],
): ((value: T, time: number, seq: number) => boolean) | undefined {
  const tests = Object.entries(filters).flatMap(([name, reads]) => {
    const given = parameters.getAll(name);
    const values = given.flatMap(value => value.split(',')).filter(value => value !== '');
    return values.length === 0 ? [] : [{ reads, wanted: new Set([...given, ...expand(name, values)]) }];
  });
  if (tests.length === 0) return undefined;
  return (value, time, seq) =>
    tests.every(({ reads, wanted }) => {
      const found = reads(value, time, seq);
      if (found === undefined) return false;
      return typeof found === 'string' ? wanted.has(found) : found.some(each => wanted.has(each));
    });
}
