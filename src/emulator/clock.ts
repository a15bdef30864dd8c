import type { Clock } from '../kit/clock.ts';

/** Clock that starts `ahead` milliseconds after the real time, or before it if negative, and runs `speed` times as fast. */
export type EmulatedClock = ReturnType<typeof createEmulatedClock>;

export function createEmulatedClock(clock: Clock, speed: number, ahead = 0) {
  if (!(speed >= 0 && Number.isFinite(speed))) throw new RangeError(`speed must be 0 or more, got ${speed}`);
  const origin = clock.now();
  let jumped = ahead;
  let latest = origin + ahead;
  return {
    /** Speed of emulated time relative to real time; 0 freezes the clock. */
    speed,
    /** Returns the emulated time (whole ms since the Unix epoch). It never decreases. */
    now(): number {
      latest = Math.max(latest, Math.floor(origin + (clock.now() - origin) * speed) + jumped);
      return latest;
    },
    /** Advances the clock (ms), even if it is frozen. */
    advance(ms: number): void {
      if (!(ms >= 0 && Number.isFinite(ms))) throw new RangeError(`a clock only goes ahead, got ${ms} ms`);
      jumped += Math.round(ms);
    },
  };
}
