import type { Clock } from '../kit/clock.ts';

/** Time for what limits acting: setting the wall clock neither gives anything back nor revives anything. Milliseconds since the Unix epoch. */
export type LimitClock = ReturnType<typeof createLimitClock>;

/** Difference between wall and monotonic time, milliseconds, above which the clock was set. */
const CLOCK_STEP = 30_000;
/** The longest window. What was done before the clock was set forward is as old as that by then, and the wall clock counts again. */
const LONGEST_WINDOW = 24 * 3_600_000;

/** `lastAt`: the latest time in the journal. `onStep`: called with the milliseconds by which the clock was set, as soon as that is seen. */
export function createLimitClock(
  clock: Pick<Clock, 'now' | 'monotonic'>,
  lastAt: number,
  onStep: (ms: number) => void,
) {
  const start = clock.now();
  let base = Math.max(start, lastAt) - clock.monotonic();
  let offset = start - clock.monotonic();
  /** When the clock was last seen to be set, on the monotonic clock. */
  let steppedAt = Number.NEGATIVE_INFINITY;
  let latest = Math.max(start, lastAt);

  function elapsed(): number {
    const [wall, monotonic] = [clock.now(), clock.monotonic()];
    const step = wall - monotonic - offset;
    if (Math.abs(step) > CLOCK_STEP) {
      steppedAt = monotonic;
      onStep(step);
    }
    offset = wall - monotonic;
    const isCalm = monotonic - steppedAt >= LONGEST_WINDOW;
    if (isCalm || offset - base <= CLOCK_STEP) base = Math.max(base, offset);
    latest = Math.max(latest, wall, base + monotonic);
    return base + monotonic;
  }

  return {
    /** For windows of time: moves as the monotonic clock does, from the later of the wall clock and the latest time in the journal on. */
    elapsed,
    /** For what ends: the latest time that there ever was. */
    latest(): number {
      elapsed();
      return latest;
    },
    /** For lines of the journal. */
    stamp: (): number => Math.max(elapsed(), clock.now()),
  };
}
