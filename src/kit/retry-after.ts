/** Maximum wait that a `Retry-After` header can request (ms). Longer waits are capped. */
const MAX_WAIT = 3_600_000;

/** Parses a `Retry-After` header (seconds or a date) to ms. `now`: ms since the Unix epoch. */
export function retryAfterMs(header: string | undefined, now: number): number | undefined {
  if (header === undefined) return undefined;
  const ms = /^\d+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - now;
  return Number.isNaN(ms) ? undefined : Math.min(MAX_WAIT, Math.max(0, ms));
}
