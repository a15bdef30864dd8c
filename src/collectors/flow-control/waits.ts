/** A message between a failed attempt and the next one. Times are in milliseconds since the Unix epoch. */
interface Wait {
  readonly key: string;
  readonly from: number;
  /** Due time of the next attempt, or 0 if it is not logged. */
  due: number;
}

/** Maximum number of waiting messages and of cached final events. */
const MAX_WAITING = 20_000;
/** Time for which final events are cached (ms). */
const KEPT_FOR = 1_200_000;
const DAY = 86_400_000;
/** Maximum wait (ms): the service's longest retry delay (7 days), plus a day in which a due attempt must start. */
export const MAX_WAIT = 7 * DAY + DAY;

/**
 * Returns when a wait expires. If no attempt starts within a day after the due time, the log has lost the end of the message.
 */
const expiryOf = (from: number, due: number) => (due > 0 ? due + DAY : from + MAX_WAIT);

/** Tracks messages that wait for a retry, from events in any order. */
export function createWaits() {
  const waiting = new Map<bigint, Wait>();
  /** Messages that ended recently. A delayed event must not make them wait again. */
  const finals = new Map<bigint, number>();

  const waits = {
    /** Time until which messages that exceeded the limit may still be waiting; 0 if there were none. */
    droppedUntil: 0,
    /** Adds a message after a failed attempt. Returns false if it was waiting already, has ended since, or exceeds the limit. */
    begin(message: bigint, key: string, time: number, due: number): boolean {
      if ((finals.get(message) ?? 0) >= time) return false;
      const known = waiting.get(message);
      if (known) {
        // The same wait was listed again, or the attempt between two waits was lost.
        if (time >= known.from && due > 0) known.due = due;
        return false;
      }
      if (waiting.size >= MAX_WAITING) {
        waits.droppedUntil = Math.max(waits.droppedUntil, expiryOf(time, due));
        return false;
      }
      waiting.set(message, { key, from: time, due });
      return true;
    },
    /** Ends a wait: the next attempt started, or the message ended (`isFinal`). */
    end(message: bigint, time: number, isFinal: boolean): void {
      if (isFinal) {
        finals.set(message, time);
        if (finals.size > MAX_WAITING) for (const [oldest] of finals.entries().take(1)) finals.delete(oldest);
      }
      const wait = waiting.get(message);
      if (wait && time >= wait.from) waiting.delete(message);
    },
    keyOf: (message: bigint): string | undefined => waiting.get(message)?.key,
    /** Drops expired waits. All events up to `time` must be listed. Returns the keys of the dropped waits. */
    settle(time: number): readonly string[] {
      const expired: string[] = [];
      for (const [message, { key, from, due }] of waiting) {
        if (expiryOf(from, due) > time) continue;
        waiting.delete(message);
        expired.push(key);
      }
      for (const [message, ended] of finals) if (ended <= time - KEPT_FOR) finals.delete(message);
      return expired;
    },
    clear(): void {
      waiting.clear();
      finals.clear();
    },
    get all(): readonly (readonly [message: bigint, key: string, from: number, due: number])[] {
      return [...waiting].map(([message, { key, from, due }]) => [message, key, from, due] as const);
    },
  };
  return waits;
}
