import { recordOf } from '../../kit/record.ts';
import { EVENT_STATES, type EventState } from '../../model/message.ts';

export type RecentEvents = ReturnType<typeof createRecentEvents>;

/** Number of slices into which a window is divided, so that there are at most 90,000 counts (about 6 MB). */
const SLICES = 10_000;
/** Upper bound of the number of states: a key combines slice and state. */
const STATES = 16;

/** Counts the events of a window (ms) by state. */
export function createRecentEvents(window: number) {
  const slice = Math.max(1, Math.ceil(window / SLICES));
  const counts = new Map<number, number>();
  const sums: number[] = Array(EVENT_STATES.length).fill(0);
  return {
    /** `state`: index in EVENT_STATES; `time`: milliseconds. */
    add(state: number, time: number): void {
      const key = Math.floor(time / slice) * STATES + state;
      counts.set(key, (counts.get(key) ?? 0) + 1);
      (sums[state] as number) += 1;
    },
    /** Drops events before `from` and returns the counts of the rest. */
    since(from: number): Record<EventState, number> {
      for (const [key, count] of counts) {
        if ((Math.floor(key / STATES) + 1) * slice > from) continue;
        counts.delete(key);
        (sums[key % STATES] as number) -= count;
      }
      return recordOf(EVENT_STATES, (_, index) => sums[index] as number);
    },
  };
}
