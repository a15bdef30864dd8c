import { recordOf } from '../../kit/record.ts';
import { EVENT_STATES, type EventState } from '../../model/message.ts';

/** Events of the last while by state. */
export interface Recent {
  /** `state`: index in EVENT_STATES; `time`: milliseconds. */
  add(state: number, time: number): void;
  /** Counts of those at `from` and later; what is older is forgotten. */
  since(from: number): Record<EventState, number>;
}

/** Events that are kept one by one at most, and as many times and states beyond these. Some 6 MB. */
export const MOST_KEPT = 100_000;
/** More than there are states: a key is a time and a state. */
const STATES = 16;
const SMALLEST = 16;

/** Exact up to `MOST_KEPT` events; beyond that up to as many times and states, whose resolution then decreases. */
export function createRecent(): Recent {
  /** A key for each event, in any order: 8 bytes, where a Map takes 40. */
  let keys = new Float64Array();
  let size = 0;
  /** Counts of the events that are not kept one by one, by key. */
  let counts = new Map<number, number>();
  let slice = 1;

  const increase = (key: number, by: number) => counts.set(key, (counts.get(key) ?? 0) + by);
  const coarser = (key: number, by: number) => Math.floor(Math.floor(key / STATES) / by) * STATES + (key % STATES);

  function coarsen(): void {
    const finer = counts;
    counts = new Map();
    slice *= 2;
    for (const [key, count] of finer) increase(coarser(key, 2), count);
  }

  function spill(): void {
    for (const key of keys.subarray(0, size)) {
      increase(coarser(key, slice), 1);
      while (counts.size > MOST_KEPT) coarsen();
    }
    size = 0;
  }

  function resize(length: number): void {
    const resized = new Float64Array(length);
    resized.set(keys.subarray(0, size));
    keys = resized;
  }

  return {
    add(state, time) {
      if (size === MOST_KEPT) spill();
      if (size === keys.length) resize(Math.min(MOST_KEPT, Math.max(SMALLEST, Math.ceil(size * 1.25))));
      keys[size] = Math.floor(time) * STATES + state;
      size += 1;
    },
    since(from) {
      const sums: number[] = Array(EVENT_STATES.length).fill(0);
      let kept = 0;
      for (const key of keys.subarray(0, size)) {
        if (Math.floor(key / STATES) + 1 <= from) continue;
        keys[kept] = key;
        kept += 1;
        (sums[key % STATES] as number) += 1;
      }
      size = kept;
      if (keys.length > Math.max(SMALLEST, size * 2)) resize(size);
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
