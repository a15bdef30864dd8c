import type { IncomingHttpHeaders } from 'node:http';

/** What a refused request waits when the service does not say how long, milliseconds. */
const UNSAID = 1000;

const text = (value: string | string[] | undefined) => (typeof value === 'string' ? value.trim() : '');

/** Milliseconds of Retry-After: seconds, or a date, which is measured by the service's own clock. */
function retryAfter(headers: IncomingHttpHeaders): number | undefined {
  const value = text(headers['retry-after']);
  if (value === '') return undefined;
  const ms = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.parse(text(headers.date));
  return Number.isFinite(ms) && ms >= 0 ? ms : undefined;
}

/** Milliseconds until the burst limit is lifted: `Burst-RateLimit-Reset` is a Unix time, in seconds or milliseconds. */
function burstReset(headers: IncomingHttpHeaders, now: number): number | undefined {
  const value = Number(text(headers['burst-ratelimit-reset']) || Number.NaN);
  if (!Number.isFinite(value)) return undefined;
  const ms = (value > 1e11 ? value : value * 1000) - now;
  // Whole seconds, and two clocks: what is past already means soon.
  return ms > 0 ? Math.min(ms, 60_000) : UNSAID;
}

/**
 * How long, in milliseconds, an answer asks to send nothing more: its Retry-After; when the burst limit is used up, its
 * reset; after a 429 a second at least. Undefined when it asks nothing. `now`: wall time, milliseconds.
 */
export function askedWait(status: number, headers: IncomingHttpHeaders, now: number): number | undefined {
  if (status === 429) return retryAfter(headers) ?? burstReset(headers, now) ?? UNSAID;
  if (status >= 500) return retryAfter(headers);
  return text(headers['burst-ratelimit-remaining']) === '0' ? burstReset(headers, now) : undefined;
}
