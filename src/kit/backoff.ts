/** Bounds of a wait, in milliseconds. */
export interface Backoff {
  readonly first: number;
  readonly longest: number;
}

/**
 * Milliseconds to wait before retry number `attempt` (1 is the first retry): a random share, from half to all, of
 * `first` doubled each time and capped at `longest`. Randomness keeps clients that failed together from returning together.
 */
export function backoffDelay({ first, longest }: Backoff, attempt: number, random: () => number): number {
  const ceiling = Math.min(longest, first * 2 ** (attempt - 1));
  return ceiling * (0.5 + random() / 2);
}
