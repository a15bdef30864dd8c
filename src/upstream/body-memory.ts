import { unlessAborted } from '../kit/clock.ts';

interface Holder {
  held: number;
  /** Repeats a reservation that waits. Undefined if none waits. */
  retry: (() => void) | undefined;
}

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
  const holders = new Set<Holder>();
  let used = 0;

  function take(holder: Holder, bytes: number): boolean {
    const [oldest] = holders;
    if (holder !== oldest && used + bytes > total - largest) return false;
    holder.held += bytes;
    used += bytes;
    return true;
  }

  return {
    used: () => used,
    open() {
      const holder: Holder = { held: 0, retry: undefined };
      holders.add(holder);
      return {
        /** Reserves more bytes. Waits until they are free; throws the signal's reason if it is aborted first. */
        async add(bytes: number, signal: AbortSignal): Promise<void> {
          signal.throwIfAborted();
          if (take(holder, bytes)) return;
          const { promise, resolve } = Promise.withResolvers<void>();
          holder.retry = () => {
            if (!take(holder, bytes)) return;
            holder.retry = undefined;
            resolve();
          };
          await unlessAborted(promise, signal).finally(() => {
            holder.retry = undefined;
          });
        },
        /** Releases all bytes. Must be called exactly once. */
        release(): void {
          holders.delete(holder);
          used -= holder.held;
          for (const { retry } of holders) retry?.();
        },
      };
    },
  };
}
