import { recordOf } from '../../kit/record.ts';
import { EVENT_STATES, type EventState } from '../../model/message.ts';

export type RecentEvents = ReturnType<typeof createRecentEvents>;

/** Maximum number of pairs of time and state (about 6 MB). */
export const MAX_KEPT = 100_000;
/** Upper bound of the number of states: a key combines time and state. */
const STATES = 16;

/** Counts recent events by state. Beyond `MAX_KEPT` pairs, the resolution of times decreases. */
export function createRecentEvents() {
  let counts = new Map<number, number>();
  let slice = 1;
  const sums: number[] = Array(EVENT_STATES.length).fill(0);

  const increase = (time: number, state: number, by: number) => {
    const key = Math.floor(time / slice) * STATES + state;
    counts.set(key, (counts.get(key) ?? 0) + by);
  };

  function coarsen(): void {
    const [finer, before] = [counts, slice];
    counts = new Map();
    slice *= 2;
    for (const [key, count] of finer) increase(Math.floor(key / STATES) * before, key % STATES, count);
  }

  return {
    /** `state`: index in EVENT_STATES; `time`: milliseconds. */
    add(state: number, time: number): void {
      increase(time, state, 1);
      (sums[state] as number) += 1;
      while (counts.size > MAX_KEPT) coarsen();
    },
    /** Drops events before `from` and returns the counts of the rest. */
    since(from: number): Record<EventState, number> {
      for (const [key, count] of counts) {
        if ((Math.floor(key / STATES) + 1) * slice > from) continue;
        counts.delete(key);
        (sums[key % STATES] as number) -= count;
      }
      if (counts.size === 0) slice = 1;
      return recordOf(EVENT_STATES, (_, index) => sums[index] as number);
    },
  };
}
