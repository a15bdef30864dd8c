/** Maximum wait (ms). Longer ones are cut. */
const LONGEST_WAIT = 3_600_000;

/** Wait of a header `Retry-After` (ms), which has seconds or a date. `now`: milliseconds since the Unix epoch. */
export function retryAfterMs(header: string | undefined, now: number): number | undefined {
  if (header === undefined) return undefined;
  const ms = /^\d+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - now;
  return Number.isNaN(ms) ? undefined : Math.min(LONGEST_WAIT, Math.max(0, ms));
}
