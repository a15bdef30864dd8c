const WINDOW_MS = 1000;

/** What a request may know of the window that it fell into. */
export interface BurstAnswer {
  readonly allowed: boolean;
  readonly remaining: number;
  /** When the window ends, real milliseconds since the Unix epoch. */
  readonly resetAt: number;
}

/** Counts requests in windows of a real second: the documented burst limit of an account. */
export function createBurst(now: () => number): (limit: number) => BurstAnswer {
  let start = Number.NEGATIVE_INFINITY;
  let taken = 0;
  return limit => {
    const time = now();
    if (time >= start + WINDOW_MS || time < start) {
      start = time;
      taken = 0;
    }
    const allowed = taken < limit;
    if (allowed) taken++;
    return { allowed, remaining: Math.max(0, limit - taken), resetAt: start + WINDOW_MS };
  };
}
