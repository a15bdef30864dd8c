/** Times that the API can represent: years with four digits. */
const EARLIEST = Date.parse('0000-01-01T00:00:00Z');
const LATEST = Date.parse('9999-12-31T23:59:59Z');

/** Formats a time (ms since the Unix epoch) as ISO 8601; null if it is undefined or out of range. */
export function isoTime(ms: number | undefined): string | null {
  if (ms === undefined || !(ms >= EARLIEST && ms <= LATEST)) return null;
  return new Date(Math.round(ms)).toISOString();
}

/** Formats a time (ms since the Unix epoch) as ISO 8601. Throws if it is outside the range of Date. */
export const iso = (ms: number) => new Date(ms).toISOString();

export const orNull = <T>(value: T | undefined): T | null => value ?? null;

type WithNulls<T> = { [K in keyof T]: undefined extends T[K] ? Exclude<T[K], undefined> | null : T[K] };

/** Replaces undefined members with null, which JSON keeps. */
export const withNulls = <T extends object>(of: T) =>
  Object.fromEntries(Object.entries(of).map(([name, value]) => [name, orNull(value)])) as WithNulls<T>;

export const sum = (values: Iterable<number>) => Iterator.from(values).reduce((all, value) => all + value, 0);
