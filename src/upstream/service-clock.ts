import { type Clock, MAX_CLOCK_CORRECTION, MAX_CLOCK_SKEW } from '../kit/clock.ts';
import { MINUTE } from '../kit/duration.ts';
import { parseHttpDate } from '../kit/retry-after.ts';

/** Duration of a period (ms). `largestSkew` covers the current and the previous period, that is, 5 to 10 minutes. */
const PERIOD = 5 * MINUTE;

/** Bounds of the difference between two clocks (ms). */
interface Bounds {
  readonly least: number;
  readonly most: number;
}

/**
 * Returns bounds of the service's clock minus the clock of `before` and `after`; undefined without a readable `Date`. A `Date` has
 * whole seconds and was taken between `before` and `after` (ms).
 */
export function clockDifference(date: unknown, before: number, after: number): Bounds | undefined {
  const time = parseHttpDate(date);
  return time === undefined ? undefined : { least: time - after, most: time + 999 - before };
}

/** Returns the difference within the bounds that is nearest to zero (ms). */
export const smallestDifference = ({ least, most }: Bounds): number => Math.trunc(Math.max(least, Math.min(0, most)));

interface ObservedResponse {
  readonly date: unknown;
  /** Whether the response may be outdated or from an intermediary, because it is an error or was cached. */
  readonly isDoubtful: boolean;
}

export type ServiceClock = ReturnType<typeof createServiceClock>;

/**
 * Estimates the service's clock from `Date` headers, which bound the service's time relative to the monotonic clock. The
 * estimate is the agent's wall clock, moved into the bounds: a skew within them counts as 0, and clock steps have no effect.
 *
 * A `Date` outside the bounds replaces them. Event times decide whether `Date` is the clock of the service's data: see
 * `observeLog`.
 */
export function createServiceClock(clock: Pick<Clock, 'now' | 'monotonic'>) {
  /** Bounds of the service's clock minus the monotonic clock. */
  let known: Bounds | undefined;
  let isContradicted = false;
  let logReadAt = Number.NEGATIVE_INFINITY;
  let periodStart = Number.NEGATIVE_INFINITY;
  let largest: number | undefined;
  let largestBefore: number | undefined;

  /** Converts bounds relative to the monotonic clock into bounds relative to the agent's wall clock. */
  function toWall({ least, most }: Bounds): Bounds {
    const base = clock.now() - clock.monotonic();
    return { least: least - base, most: most - base };
  }

  function learn(seen: Bounds): void {
    const least = Math.max(known?.least ?? Number.NEGATIVE_INFINITY, seen.least);
    const most = Math.min(known?.most ?? Number.POSITIVE_INFINITY, seen.most);
    known = least > most ? seen : { least, most };
  }

  function startPeriod(): void {
    const age = clock.monotonic() - periodStart;
    if (age < PERIOD) return;
    largestBefore = age < 2 * PERIOD ? largest : undefined;
    largest = undefined;
    periodStart = clock.monotonic();
  }

  function noteLargest(seen: Bounds): void {
    startPeriod();
    largest = Math.max(largest ?? 0, Math.abs(smallestDifference(toWall(seen))));
  }

  const dated = () => known && smallestDifference(toWall(known));
  const usable = () => {
    const difference = dated() ?? 0;
    return Math.abs(difference) <= MAX_CLOCK_CORRECTION ? difference : 0;
  };

  return {
    /** Starts to time a request. Call the returned function with the response when its headers arrive. */
    startRequest() {
      const before = clock.monotonic();
      return ({ date, isDoubtful }: ObservedResponse): void => {
        const seen = clockDifference(date, before, clock.monotonic());
        if (!seen) return;
        noteLargest(seen);
        if (!isDoubtful) learn(seen);
      };
    },
    /** Converts a recent time of the agent's wall clock into the service's time (ms since the Unix epoch). */
    at: (time: number): number => time + (isContradicted ? 0 : usable()),
    /** Returns the later of `time` and the same time by `Date`, even if event times contradict `Date`. */
    latest: (time: number): number => time + Math.max(0, usable()),
    /**
     * Checks `Date` by the newest event that the log has listed since the previous call, if any. Unless the log is delayed, the
     * event occurred since that call. `Date` is not used if the agent's clock fits the event's time better.
     */
    observeLog(newest: number | undefined): void {
      const [now, elapsed] = [clock.now(), clock.monotonic() - logReadAt];
      logReadAt = clock.monotonic();
      if (newest === undefined || newest > now + Math.max(0, usable()) + MAX_CLOCK_SKEW) return;
      const distanceTo = (end: number) => Math.max(0, newest - end, end - elapsed - newest);
      const further = distanceTo(now + usable()) - distanceTo(now);
      if (Math.abs(further) > MAX_CLOCK_SKEW) isContradicted = further > 0;
    },
    /** Returns the service's clock minus the agent's (ms); undefined before the first readable `Date`. */
    skew: (): number | undefined => (isContradicted ? 0 : dated()),
    /**
     * Returns the largest skew that any response of the last 5 to 10 minutes proves (ms, not negative); undefined if none had a
     * readable `Date`. Auto-cancel uses it, because one response is reason enough not to act.
     */
    largestSkew(): number | undefined {
      startPeriod();
      return largest === undefined ? largestBefore : Math.max(largest, largestBefore ?? 0);
    },
  };
}
