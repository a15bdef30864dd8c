/** A receiver that asks for a longer wait is asked again after this. Milliseconds. */
const LONGEST_WAIT = 3_600_000;

/** Milliseconds that a header `Retry-After` asks to wait: seconds, or a date. `now`: milliseconds since the Unix epoch. */
export function retryAfterMs(header: string | undefined, now: number): number | undefined {
  if (header === undefined) return undefined;
  const ms = /^\d+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - now;
  return Number.isNaN(ms) ? undefined : Math.min(LONGEST_WAIT, Math.max(0, ms));
}
