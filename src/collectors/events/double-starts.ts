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
/** Maximum number of recent starts, and of schedules with repeated ones. Further ones are not compared. */
const MAX = 5000;

/** Finds schedules that start twice for the same time, by schedule id. `stored`: the row of an earlier process. */
export function createDoubleStarts(stored: string | undefined) {
  const { found, recent } = JSON.parse(stored ?? '{"found":[],"recent":[]}') as {
    found: [string, DoubleStart][];
    recent: [string, number][];
  };
  const doubles = new Map(found);
  const starts = new Map(recent);
  let latest = 0;
  return {
    /** Returns the start that an event shows: the schedule id after a hash of the URL. */
    of: ({ state, schedule, url = '' }: DeliveryEvent): string | undefined =>
      state === 'created' && schedule !== undefined ? `${hash64(url).toString(16)} ${schedule}` : undefined,
    add(start: string, time: number): void {
      const last = starts.get(start) ?? Number.NEGATIVE_INFINITY;
      const apart = Math.abs(time - last);
      const id = start.slice(start.indexOf(' ') + 1);
      const { count, at } = doubles.get(id) ?? { count: 0, at: 0 };
      const isDouble = apart > ONE_START && apart < NEXT_START;
      if (isDouble && (count > 0 || doubles.size < MAX)) {
        doubles.set(id, { count: count + 1, at: Math.max(at, time) });
      }
      latest = Math.max(latest, time);
      for (const [old, at] of starts) {
        if (at > latest - NEXT_START) break;
        starts.delete(old);
      }
      // The oldest start is first.
      starts.delete(start);
      if (starts.size < MAX) starts.set(start, Math.max(time, last));
    },
    facts: (): ReadonlyMap<string, DoubleStart> => new Map(doubles),
    row: () => JSON.stringify({ found: [...doubles], recent: [...starts] }),
  };
}
