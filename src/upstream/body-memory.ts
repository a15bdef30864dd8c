import { unlessAborted } from '../kit/clock.ts';

/** Share of one body in a memory. */
export type Reservation = ReturnType<ReturnType<typeof createBodyMemory>['open']>;

/**
 * Shares `total` bytes among bodies, each of which reserves at most `largest` bytes in any number of steps.
 *
 * All bodies but the oldest together hold at most `total - largest` bytes, so the oldest never waits, and bodies cannot wait for
 * each other forever: the oldest one ends, at the latest at its request's timeout, and the next one becomes the oldest.
 */
export function createBodyMemory(total: number, largest: number) {
  /** Oldest first. */
  const bodies = new Set<object>();
  let used = 0;
  let released = Promise.withResolvers<void>();
  return {
    used: () => used,
    open() {
      const body = {};
      let held = 0;
      bodies.add(body);
      return {
        /** Reserves more bytes. Waits until they are free; throws the signal's reason if it is aborted first. */
        async add(bytes: number, signal: AbortSignal): Promise<void> {
          signal.throwIfAborted();
          const isOldest = () => bodies.values().next().value === body;
          while (used + bytes > total - largest && !isOldest()) await unlessAborted(released.promise, signal);
          held += bytes;
          used += bytes;
        },
        /** Releases all bytes. Must be called exactly once. */
        release(): void {
          bodies.delete(body);
          used -= held;
          released.resolve();
          released = Promise.withResolvers();
        },
      };
    },
  };
}
