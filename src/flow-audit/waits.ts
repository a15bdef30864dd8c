/** A message whose attempt failed, and that waits for the next. Times: milliseconds since the Unix epoch. */
interface Wait {
  readonly key: string;
  readonly from: number;
  /** When its next attempt is due; 0 where the log does not tell, or a cancel is requested. */
  due: number;
  /** How long it was to last when it began, milliseconds; 0 where the log does not tell. */
  delay: number;
  /** When it was over. */
  until: number;
}

/** `from`, `to`: times. */
export interface Span {
  readonly from: number;
  readonly to: number;
  readonly newerThan: number;
  readonly isOverdueToo?: boolean;
}

/** `from`, `to`: times. */
export interface BriefSpan {
  readonly from: number;
  readonly to: number;
  readonly shorterThan: number;
  readonly overdue: number;
}

/** As it is stored: message, key, begin, and when it is due. */
export type StoredWait = readonly (readonly [message: bigint, key: string, from: number, due: number])[];

/** Messages that wait for a retry, from events in any order. */
export interface Waits {
  /** An attempt of the message failed; whether it waits since then and did not before. */
  begin(message: bigint, key: string, time: number, due: number): boolean;
  /** Its next attempt began, or it ended. */
  end(message: bigint, time: number, isFinal: boolean): void;
  /** Undefined where the message does not wait. */
  keyOf(message: bigint): string | undefined;
  /** It may end any time from then on. */
  doubt(message: bigint): void;
  /**
   * Which waited for the whole of a span, of those that began at `newerThan` or later: how long each was to last, milliseconds,
   * the shortest first. Beyond doubt, unless those that are overdue count as well: the log may have lost their ends.
   */
  throughout(key: string, span: Span): readonly number[];
  /**
   * The most that waited at a time within a span, of those that were to last less than `shorterThan` milliseconds, or are not told;
   * but not those that are overdue for longer than `overdue`, milliseconds.
   */
  brief(key: string, span: BriefSpan): number;
  /** Everything until then is known. Gives the keys of the messages that are given up. */
  settle(time: number): readonly string[];
  clear(): void;
  /** Until then more messages wait than are followed. */
  droppedUntil: number;
  readonly all: StoredWait;
}

/** More are not followed, and as many that are over. */
const MOST_WAITING = 20_000;
/** How long what is over is remembered, milliseconds. */
const KEPT = 1_200_000;
const DAY = 86_400_000;
/** The longest delay that accounts of the service allow, where the log does not tell it, milliseconds. */
const LONGEST_DELAY = 7 * DAY;

/** A message that did not begin so long after it was due is gone, and the log lost its end. */
const givenUpAt = (from: number, due: number) => (due || from + LONGEST_DELAY) + DAY;

export function createWaits(): Waits {
  const waiting = new Map<bigint, Wait>();
  const byKey = new Map<string, Set<Wait>>();
  let over: Wait[] = [];
  /** Messages that ended a short while ago: what is listed late must not make them wait. */
  const finals = new Map<bigint, number>();

  function drop(wait: Wait): void {
    const all = byKey.get(wait.key);
    all?.delete(wait);
    if (all?.size === 0) byKey.delete(wait.key);
  }

  const waits: Waits = {
    droppedUntil: 0,
    begin(message, key, time, due) {
      if ((finals.get(message) ?? 0) >= time) return false;
      const known = waiting.get(message);
      if (known) {
        // The same wait, told once more; or another, and the attempt between both was lost.
        if (time >= known.from && due > 0) Object.assign(known, { due, delay: due - known.from });
        return false;
      }
      if (waiting.size >= MOST_WAITING) {
        waits.droppedUntil = Math.max(waits.droppedUntil, givenUpAt(time, due));
        return false;
      }
      const delay = due > 0 ? due - time : 0;
      const wait = { key, from: time, due, delay, until: Number.POSITIVE_INFINITY };
      waiting.set(message, wait);
      byKey.set(key, (byKey.get(key) ?? new Set()).add(wait));
      return true;
    },
    end(message, time, isFinal) {
      if (isFinal) {
        finals.set(message, time);
        if (finals.size > MOST_WAITING) for (const [oldest] of finals.entries().take(1)) finals.delete(oldest);
      }
      const wait = waiting.get(message);
      if (!wait || time < wait.from) return;
      waiting.delete(message);
      wait.until = time;
      over.push(wait);
      if (over.length > MOST_WAITING) drop(over.shift() as Wait);
    },
    keyOf: message => waiting.get(message)?.key,
    doubt(message) {
      const wait = waiting.get(message);
      if (wait) wait.due = 0;
    },
    throughout(key, { from, to, newerThan, isOverdueToo }) {
      const delays: number[] = [];
      for (const { from: begin, due, until, delay } of byKey.get(key) ?? []) {
        const end = isOverdueToo && delay > 0 ? until : Math.min(due, until);
        if (begin >= newerThan && begin <= from && end >= to) delays.push(delay);
      }
      return delays.sort((a, b) => a - b);
    },
    brief(key, { from, to, shorterThan, overdue }) {
      // Twice the time, and one more where one more waits from then on: what ends makes room for what begins.
      const steps: number[] = [];
      for (const { delay, from: begin, until } of byKey.get(key) ?? []) {
        const end = delay > 0 ? Math.min(until, begin + delay + overdue) : until;
        if (delay < shorterThan && begin <= to && end > Math.max(begin, from)) steps.push(2 * begin + 1, 2 * end);
      }
      let [most, now] = [0, 0];
      for (const step of Float64Array.from(steps).sort()) {
        now += step % 2 === 1 ? 1 : -1;
        most = Math.max(most, now);
      }
      return most;
    },
    settle(time) {
      const given: string[] = [];
      for (const [message, wait] of waiting) {
        if (givenUpAt(wait.from, wait.due) > time) continue;
        waiting.delete(message);
        drop(wait);
        given.push(wait.key);
      }
      const kept = over.filter(({ until }) => until > time - KEPT);
      if (kept.length < over.length) {
        for (const wait of over) if (wait.until <= time - KEPT) drop(wait);
        over = kept;
      }
      for (const [message, ended] of finals) if (ended <= time - KEPT) finals.delete(message);
      return given;
    },
    clear() {
      for (const map of [waiting, byKey, finals]) map.clear();
      over = [];
    },
    get all() {
      return [...waiting].map(([message, { key, from, due }]) => [message, key, from, due] as const);
    },
  };
  return waits;
}
