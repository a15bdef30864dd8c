import type { Clock } from '../kit/clock.ts';

/** Time after which the previous period is dropped (ms): a measured difference counts for five to ten minutes. */
const PERIOD = 5 * 60_000;

/** Difference between this machine's clock and the service's, measured by the `Date` of responses. */
export type ServiceClock = ReturnType<typeof createServiceClock>;

/** Least clock difference (ms) that a response proves, or undefined. Its `Date` has whole seconds, taken between `before` and `after`. */
export function provenSkew(date: unknown, before: number, after: number): number | undefined {
  const time = typeof date === 'string' ? Date.parse(date) : Number.NaN;
  return Number.isNaN(time) ? undefined : Math.max(0, before - (time + 999), time - after);
}

export function createServiceClock({ monotonic }: Pick<Clock, 'monotonic'>) {
  let periodStart = Number.NEGATIVE_INFINITY;
  let current: number | undefined;
  let previous: number | undefined;

  function startPeriod(): void {
    const age = monotonic() - periodStart;
    if (age < PERIOD) return;
    previous = age < 2 * PERIOD ? current : undefined;
    current = undefined;
    periodStart = monotonic();
  }

  return {
    /** Adds a response. `before` and `after`: wall time of the request and of the response's headers (ms since the Unix epoch). */
    observe(date: unknown, before: number, after: number): void {
      const skew = provenSkew(date, before, after);
      if (skew === undefined) return;
      startPeriod();
      current = Math.max(current ?? 0, skew);
    },
    /** The largest difference of the last minutes (ms), or undefined if no response of that time had a readable `Date`. */
    skew(): number | undefined {
      startPeriod();
      return current === undefined ? previous : Math.max(current, previous ?? 0);
    },
  };
}
