import type { Clock } from './clock.ts';

export interface Backoff {
  readonly first: number;
  readonly longest: number;
}

/**
 * Returns the delay (ms) before retry number `attempt` (1, 2, …). It doubles with each attempt up to `longest`, and half of it
 * is random.
 */
export function backoffDelay({ first, longest }: Backoff, attempt: number, random: () => number): number {
  const ceiling = Math.min(longest, first * 2 ** (attempt - 1));
  return ceiling * (0.5 + random() / 2);
}

export type Retry = ReturnType<typeof createRetry>;

export function createRetry(backoff: Backoff, clock: Pick<Clock, 'monotonic'>, random: () => number) {
  let failures = 0;
  let notBefore = Number.NEGATIVE_INFINITY;
  return {
    get failures(): number {
      return failures;
    },
    isDue: (): boolean => clock.monotonic() >= notBefore,
    /** `atLeast`: minimum delay requested by the server (ms). */
    failed(atLeast = 0): void {
      failures += 1;
      notBefore = clock.monotonic() + Math.max(atLeast, backoffDelay(backoff, failures, random));
    },
    succeeded(): void {
      failures = 0;
      notBefore = Number.NEGATIVE_INFINITY;
    },
  };
}
