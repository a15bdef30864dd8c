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
  /** A key for each event from `begin` until `end`: 8 bytes, where a Map takes 40. */
  let keys = new Float64Array();
  let [begin, end] = [0, 0];
  /** Whether they ascend, but for the states of the same time. */
  let isSorted = true;
  /** Of all events by state. */
  const sums: number[] = Array(EVENT_STATES.length).fill(0);
  /** Counts of the events that are not kept one by one, by key. */
  let counts = new Map<number, number>();
  let slice = 1;

  const increase = (key: number, by: number) => counts.set(key, (counts.get(key) ?? 0) + by);
  const timeOf = (key: number) => Math.floor(key / STATES);
  const coarser = (key: number, by: number) => Math.floor(timeOf(key) / by) * STATES + (key % STATES);

  function coarsen(): void {
    const finer = counts;
    counts = new Map();
    slice *= 2;
    for (const [key, count] of finer) increase(coarser(key, 2), count);
  }

  function spill(): void {
    for (const key of keys.subarray(begin, end)) {
      increase(coarser(key, slice), 1);
      while (counts.size > MOST_KEPT) coarsen();
    }
    [begin, end, isSorted] = [0, 0, true];
  }

  function resize(length: number): void {
    const resized = new Float64Array(length);
    resized.set(keys.subarray(begin, end));
    [keys, begin, end] = [resized, 0, end - begin];
  }

  return {
    add(state, time) {
      if (end - begin === MOST_KEPT) spill();
      if (end === keys.length) resize(Math.min(MOST_KEPT, Math.max(SMALLEST, Math.ceil((end - begin) * 1.25))));
      const at = Math.floor(time);
      isSorted &&= end === begin || at >= timeOf(keys[end - 1] as number);
      keys[end] = at * STATES + state;
      end += 1;
      (sums[state] as number) += 1;
    },
    since(from) {
      if (!isSorted) keys.subarray(begin, end).sort();
      isSorted = true;
      for (; begin < end && timeOf(keys[begin] as number) + 1 <= from; begin += 1) {
        (sums[(keys[begin] as number) % STATES] as number) -= 1;
      }
      if (keys.length > Math.max(SMALLEST, (end - begin) * 2)) resize(end - begin);
      for (const [key, count] of counts) {
        if ((timeOf(key) + 1) * slice > from) continue;
        counts.delete(key);
        (sums[key % STATES] as number) -= count;
      }
      if (counts.size === 0) slice = 1;
      return recordOf(EVENT_STATES, (_, index) => sums[index] as number);
    },
  };
}
