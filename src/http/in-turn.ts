import { setImmediate } from 'node:timers/promises';
import type { Clock } from '../kit/clock.ts';

/** Answers a question by `work`, or by what another call of the same key is about to find. */
export type InTurn<T> = (key: string, work: () => Promise<T>) => Promise<T>;

/** Time between two beginnings of the same work while it is crowded, milliseconds. */
const SPACING = 250;

/**
 * One answer for all who ask the same while an earlier one is worked on: work begins after they asked, so that it is as
 * fresh as if each had its own. While `isCrowded`, the same work begins four times a second.
 */
export function createInTurn<T>(isCrowded: () => boolean, clock: Clock): InTurn<T> {
  const waiting = new Map<string, Promise<T>>();
  const working = new Map<string, Promise<unknown>>();
  const begun = new Map<string, number>();

  async function take(key: string, work: () => Promise<T>): Promise<T> {
    // Requests of other connections that have arrived already join.
    await setImmediate();
    await working.get(key);
    const wait = (begun.get(key) ?? Number.NEGATIVE_INFINITY) + SPACING - clock.monotonic();
    if (wait > 0 && isCrowded()) await clock.sleep(wait);
    waiting.delete(key);
    begun.set(key, clock.monotonic());
    const answer = work();
    const over = () => working.delete(key);
    working.set(key, answer.then(over, over));
    return answer;
  }

  return (key, work) => {
    const answer = waiting.get(key) ?? take(key, work);
    // Set before anything was waited for: `take` has not come to its end yet.
    waiting.set(key, answer);
    return answer;
  };
}
