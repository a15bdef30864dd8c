import { describe, expect, it } from 'vitest';
import { ago, check, queueOf } from './check-scene.ts';

/** Size of a queue at a minute. */
type Size = (minute: number) => number;

const HOURS = 6 * 60;

/** Returns the minutes at which the check finds growth, evaluated once a minute from `from`, by when the history is complete. */
function growsAt(size: Size, { from = 90, to = HOURS } = {}): number[] {
  const found: number[] = [];
  for (let minute = from; minute < to; minute += 1) {
    const results = check({
      change: account => Object.assign(queueOf(account), { messages: size(minute), oldestEntered: ago(10) }),
      courses: { delivery_dlq_messages: minutesAgo => (minutesAgo > minute ? undefined : size(minute - minutesAgo)) },
    });
    if (results.some(({ check: { kind }, findings }) => kind === 'dlq_growing' && findings.length > 0)) {
      found.push(minute);
    }
  }
  return found;
}

/** Returns a size that grows from `floor` to `floor + rise` and is drained every `period` minutes. */
const drained =
  (period: number, rise: number, floor = 0): Size =>
  minute =>
    Math.round(floor + (rise * (minute % period)) / period);

describe('growth of a queue that a job drains', () => {
  it.each([
    ['every hour', drained(60, 354)],
    ['every half hour', drained(30, 177)],
    ['every quarter of an hour', drained(15, 354)],
    ['every five minutes', drained(5, 60)],
    ['every 20 minutes', drained(20, 118)],
    ['every 45 minutes', drained(45, 265)],
    ['every 80 minutes', drained(80, 354)],
    ['every hour down to 200', drained(60, 354, 200)],
    ['every hour down to 5,000', drained(60, 354, 5000)],
    ['every hour, with few messages', drained(60, 12)],
    ['every hour, over ten minutes', m => Math.round(m % 60 < 10 ? 300 * (1 - (m % 60) / 10) : 6 * ((m % 60) - 10))],
    ['every hour, seen by a walk every ten minutes', m => drained(60, 354)(Math.floor(m / 10) * 10) + (m % 10) * 5],
    ['every hour, after a burst', m => (m % 60 < 30 ? 0 : 354)],
  ])('a queue that is drained %s and refilled does not grow', (_when, size) => {
    expect(growsAt(size)).toEqual([]);
  });

  it.each([
    ['not drained any more', (m: number) => (m < 240 ? drained(60, 354)(m) : drained(240, 1416)(m)), 300, 320],
    ['drained less each hour', (m: number) => drained(60, 100)(m) + (m < 240 ? 0 : m - 240), 250, 330],
    ['drained and hit by a burst', (m: number) => drained(60, 354)(m) + (m < 270 ? 0 : 500), 270, 272],
    ['drained in part, with a growing rest', (m: number) => drained(30, 60, 100)(m) + Math.max(0, m - 240), 250, 320],
  ] as const)('growth is found within the hour although the queue was drained: %s', (_what, size, from, by) => {
    const found = growsAt(size);
    expect(found[0]).toBeGreaterThanOrEqual(from);
    expect(found[0]).toBeLessThanOrEqual(by);
  });

  it.each([
    ['one message a minute', (m: number) => Math.max(0, m - 120), 185],
    ['a step', (m: number) => (m < 120 ? 100 : 160), 121],
    ['a few messages in an empty queue', (m: number) => (m < 120 ? 0 : 5), 136],
    ['a step within an hour after the agent started', (m: number) => (m < 40 ? 100 : 160), 41],
  ] as const)('growth of a queue that is not drained is found as before: %s', (_what, size, by) => {
    const [first = Number.NaN] = growsAt(size, { from: 20, to: 240 });
    expect(first).toBeLessThanOrEqual(by);
  });
});
