import { BoundedMap } from '../../kit/bounded-map.ts';
import { hash64 } from '../../kit/hash.ts';
import type { DeliveryEvent } from '../../model/message.ts';

/** Repeated starts of a schedule. `at`: the latest one (ms since the Unix epoch). */
export interface DoubleStart {
  readonly count: number;
  readonly at: number;
}

/** Messages created within this time are of one start: a URL group may list a URL twice (ms). */
const ONE_START = 1000;
/** A message for the same URL within this time is a second start: schedules start at most once a minute (ms). */
export const NEXT_START = 30_000;
/** Maximum number of recent starts, and of schedules with repeated ones. */
const MAX = 5000;

/** Finds schedules that start twice for the same time, by schedule id. */
export function createDoubleStarts() {
  const starts = new BoundedMap<string, number>(MAX);
  const doubles = new BoundedMap<string, DoubleStart>(MAX);
  return {
    /** Returns the start that an event shows: the schedule id after a hash of the URL. */
    of: ({ state, schedule, url = '' }: DeliveryEvent): string | undefined =>
      state === 'created' && schedule !== undefined ? `${hash64(url).toString(16)} ${schedule}` : undefined,
    add(start: string, time: number): void {
      const apart = Math.abs(time - (starts.get(start) ?? Number.NEGATIVE_INFINITY));
      starts.set(start, time);
      if (apart <= ONE_START || apart >= NEXT_START) return;
      const id = start.slice(start.indexOf(' ') + 1);
      const { count, at } = doubles.get(id) ?? { count: 0, at: 0 };
      doubles.set(id, { count: count + 1, at: Math.max(at, time) });
    },
    facts: (): ReadonlyMap<string, DoubleStart> => new Map(doubles),
  };
}
