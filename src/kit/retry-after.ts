/** Maximum wait that a `Retry-After` header can request (ms). Longer waits are capped. */
const MAX_WAIT = 3_600_000;

/** The usual form of a date in HTTP (RFC 9110). */
const HTTP_DATE = /^[A-Z][a-z]{2}, \d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/;

/** Parses the date of an HTTP header to ms since the Unix epoch. */
export function parseHttpDate(text: unknown): number | undefined {
  const at = typeof text === 'string' && HTTP_DATE.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? undefined : at;
}

/**
 * Parses a `Retry-After` header (seconds or a date) to ms; undefined if it is neither. `now`: time of the response (ms since the
 * Unix epoch), by the server's clock if known.
 */
export function retryAfterMs(header: unknown, now: number): number | undefined {
  const text = typeof header === 'string' ? header.trim() : '';
  const at = parseHttpDate(text);
  if (at !== undefined) return Math.min(MAX_WAIT, Math.max(0, at - now));
  return /^\d+(\.\d+)?$/.test(text) ? Math.min(MAX_WAIT, Math.ceil(Number(text) * 1000)) : undefined;
}
