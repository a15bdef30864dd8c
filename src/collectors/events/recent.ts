import { recordOf } from '../../kit/record.ts';
import { EVENT_STATES, type EventState } from '../../model/message.ts';

/** Events of the last while by state. */
export interface Recent {
  /** `state`: index in EVENT_STATES; `time`: milliseconds. */
  add(state: number, time: number): void;
  /** Counts of those at `from` and later; what is older is forgotten. */
  since(from: number): Record<EventState, number>;
}

/** Numbers that are kept at most: as long as they suffice, every millisecond has its own. Some 5 MB. */
export const MOST_KEPT = 100_000;
/** More than there are states: a key is a time and a state. */
const STATES = 16;

/** Exact up to `MOST_KEPT` different times and states; beyond that the resolution of times decreases. */
export function createRecent(): Recent {
  let slice = 1;
  let counts = new Map<number, number>();

  const keyOf = (state: number, time: number) => Math.floor(time / slice) * STATES + state;
  const increase = (key: number, by: number) => counts.set(key, (counts.get(key) ?? 0) + by);

  function coarsen(): void {
    const finer = counts;
    counts = new Map();
    slice *= 2;
    for (const [key, count] of finer) increase(Math.floor(key / STATES / 2) * STATES + (key % STATES), count);
  }

  return {
    add(state, time) {
      increase(keyOf(state, time), 1);
      while (counts.size > MOST_KEPT) coarsen();
    },
    since(from) {
      const sums: number[] = Array(EVENT_STATES.length).fill(0);
      for (const [key, count] of counts) {
        const end = (Math.floor(key / STATES) + 1) * slice;
        if (end <= from) counts.delete(key);
        else (sums[key % STATES] as number) += count;
      }
      if (counts.size === 0) slice = 1;
      return recordOf(EVENT_STATES, (_, index) => sums[index] as number);
    },
  };
}
