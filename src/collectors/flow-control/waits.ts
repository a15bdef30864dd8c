/** A message between a failed attempt and the next one. Times: milliseconds since the Unix epoch. */
interface Wait {
  readonly key: string;
  readonly from: number;
  /** When its next attempt is due; 0 if the log does not show it. */
  due: number;
}

/** Maximum number of waiting messages, and of cached final events. */
const MOST_WAITING = 20_000;
const KEPT = 1_200_000;
const DAY = 86_400_000;
/** Longest retry delay that accounts of the service allow, milliseconds, and a day in which a due message must begin. */
export const LONGEST_WAIT = 7 * DAY + DAY;

/** If no attempt starts within a day after the due time, the log has lost the end of the message. */
const givenUpAt = (from: number, due: number) => (due > 0 ? due + DAY : from + LONGEST_WAIT);

/** Tracks messages that wait for a retry, from events in any order. */
export function createWaits() {
  const waiting = new Map<bigint, Wait>();
  /** Messages that ended a short while ago: an event that is listed late must not make them wait. */
  const finals = new Map<bigint, number>();

  const waits = {
    /** Until then more messages wait than are followed. */
    droppedUntil: 0,
    /** An attempt of the message failed. Returns whether it waits since then and did not before. */
    begin(message: bigint, key: string, time: number, due: number): boolean {
      if ((finals.get(message) ?? 0) >= time) return false;
      const known = waiting.get(message);
      if (known) {
        // The same wait, listed again; or another, and the attempt between both was lost.
        if (time >= known.from && due > 0) known.due = due;
        return false;
      }
      if (waiting.size >= MOST_WAITING) {
        waits.droppedUntil = Math.max(waits.droppedUntil, givenUpAt(time, due));
        return false;
      }
      waiting.set(message, { key, from: time, due });
      return true;
    },
    /** Its next attempt began, or it ended. */
    end(message: bigint, time: number, isFinal: boolean): void {
      if (isFinal) {
        finals.set(message, time);
        if (finals.size > MOST_WAITING) for (const [oldest] of finals.entries().take(1)) finals.delete(oldest);
      }
      const wait = waiting.get(message);
      if (wait && time >= wait.from) waiting.delete(message);
    },
    keyOf: (message: bigint): string | undefined => waiting.get(message)?.key,
    /** All events until `time` are listed. Returns the keys of messages that are given up. */
    settle(time: number): readonly string[] {
      const given: string[] = [];
      for (const [message, { key, from, due }] of waiting) {
        if (givenUpAt(from, due) > time) continue;
        waiting.delete(message);
        given.push(key);
      }
      for (const [message, ended] of finals) if (ended <= time - KEPT) finals.delete(message);
      return given;
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
