import type { Clock } from '../kit/clock.ts';

/** Duration of a period (ms). A measurement is used during its own and the next period, that is, for 5 to 10 minutes. */
const PERIOD = 5 * 60_000;

export type ServiceClock = ReturnType<typeof createServiceClock>;

/** Returns the minimum clock skew that a response proves (ms). Its `Date` has whole seconds and was taken between `before` and `after`. */
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
    /** Records the skew that a response proves. `before`, `after`: wall time of the request and the response headers (ms). */
    observe(date: unknown, before: number, after: number): void {
      const skew = provenSkew(date, before, after);
      if (skew === undefined) return;
      startPeriod();
      current = Math.max(current ?? 0, skew);
    },
    /** Returns the largest clock skew of the last 5 to 10 minutes (ms); undefined if no response had a readable `Date`. */
    skew(): number | undefined {
      startPeriod();
      return current === undefined ? previous : Math.max(current, previous ?? 0);
    },
  };
}
