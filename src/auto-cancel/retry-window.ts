/** The service waits min(24 h, e^(2.5 n) s) before retry n. */
const LONGEST_DELAY = 86_400_000;
/** From this retry on the wait is the longest. */
const FIRST_LONGEST = 5;

/** Milliseconds that the waits before `retries` retries take together: 12 s, 2.7 min, 33 min, 6.7 h, 30.7 h, 54.7 h for 1 to 6. */
export function retryDelays(retries: number): number {
  let sum = Math.max(0, retries - FIRST_LONGEST + 1) * LONGEST_DELAY;
  for (let n = 1; n <= retries && n < FIRST_LONGEST; n++) sum += Math.exp(2.5 * n) * 1000;
  return sum;
}

/**
 * Milliseconds in which a callback with `retries` retries has been tried for the last time, when each attempt takes as long
 * as `timeout` milliseconds: what it may take and be healthy.
 */
export function retryWindow(retries: number, timeout: number): number {
  return retryDelays(retries) + (retries + 1) * timeout;
}
