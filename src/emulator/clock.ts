import type { Clock } from '../kit/clock.ts';

/** Clock that starts at the real time and runs `speed` times as fast. */
export type EmulatedClock = ReturnType<typeof createEmulatedClock>;

export function createEmulatedClock(clock: Clock, speed: number) {
  const origin = clock.now();
  let jumped = 0;
  let latest = origin;
  return {
    /** Returns the emulated time (whole ms since the Unix epoch). It never decreases. */
    now(): number {
      latest = Math.max(latest, Math.floor(origin + (clock.now() - origin) * speed) + jumped);
      return latest;
    },
    /** Advances the clock (ms), even if it is frozen. */
    advance(ms: number): void {
      jumped += Math.round(ms);
    },
  };
}
