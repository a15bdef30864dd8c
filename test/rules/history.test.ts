import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createHistory } from '../../src/rules/history.ts';
import { runs } from '../support/runs.ts';

const HOUR = 3_600_000;

it('a history returns the first value of each series in the window once the history covers the window', () => {
  const history = createHistory(HOUR);
  for (let at = 0; at < HOUR; at += 60_000) {
    history.record(at, new Map([['a', at]]));
    expect(history.firsts(at)).toBeUndefined();
  }
  history.record(HOUR, new Map([['b', 7]]));
  expect(history.firsts(HOUR)).toEqual(
    new Map([
      ['a', { value: 0, isAtStart: true }],
      ['b', { value: 7, isAtStart: false }],
    ]),
  );
  // A window that starts between two points begins with the earlier one.
  expect(history.firsts(HOUR + 59_999)?.get('a')?.value).toBe(0);
  expect(history.firsts(HOUR + 60_000)?.get('a')?.value).toBe(60_000);
});

it('a history accepts a point that is early by up to a fifth of the interval, to allow for jitter', () => {
  const firstAfter = (early: number) => {
    const history = createHistory(HOUR);
    for (const at of [0, early, 60_000, HOUR + early]) history.record(at, new Map([['at', at]]));
    return history.firsts(HOUR + early)?.get('at')?.value;
  };
  expect([24_000, 23_999].map(firstAfter)).toEqual([24_000, 0]);
});

it('a history returns undefined if there is no data for the start of the window', () => {
  const history = createHistory(HOUR);
  history.record(0, new Map([['a', 1]]));
  history.record(60_000, undefined);
  history.record(120_000, new Map([['a', 2]]));
  history.record(HOUR + 120_000, new Map([['a', 3]]));
  expect(history.firsts(HOUR + 60_000)).toBeUndefined();
  expect(history.firsts(HOUR + 120_000)?.get('a')).toEqual({ value: 2, isAtStart: true });
});

it('a history stores a long window in few points and returns the last point at or before its start', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 10_000, max: 30 * 24 * HOUR }),
      fc.array(fc.integer({ min: 900, max: 20_000 }), { minLength: 500, maxLength: 2000 }),
      (over, gaps) => {
        const history = createHistory(over);
        let at = 0;
        for (const gap of gaps) {
          at += gap;
          history.record(at, new Map([['at', at]]));
          const first = history.firsts(at)?.get('at');
          if (first) {
            expect(first.isAtStart).toBe(true);
            expect(first.value).toBeLessThanOrEqual(at - over);
            // The value is older than the start of the window by at most one point and two evaluations (20 s each).
            expect(first.value).toBeGreaterThan(at - over - over / 120 - 40_000);
          } else expect(at - over).toBeLessThan(gaps[0] as number);
        }
      },
    ),
    { numRuns: runs(30) },
  );
});

it.each([
  ['an hour', HOUR],
  ['a week', 7 * 24 * HOUR],
])('a history of %s retains 100 to 160 points and deletes those before its window', (_, over) => {
  const history = createHistory(over);
  const end = 2.25 * over;
  // Each point has its own series, so the number of first values is the number of retained points.
  for (let at = 0; at <= end; at += 15_000) history.record(at, new Map([[String(at), 1]]));
  const kept = history.firsts(end)?.size;
  expect(history.firsts(end - over / 7)).toBeUndefined();
  expect(kept).toBeGreaterThan(100);
  expect(kept).toBeLessThan(160);
});

describe('history from an earlier process', () => {
  const MINUTE = 60_000;
  const known = (at: number, value: number) => ({ at, values: new Map([['a', value]]) });
  const minutes = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, index) => known((from + index) * MINUTE, from + index));
  const firstAt = (history: ReturnType<typeof createHistory>, minute: number) =>
    history.firsts(minute * MINUTE)?.get('a')?.value;

  it('restored history fills the window with points recorded before this process started', () => {
    const history = createHistory(HOUR);
    history.restore(minutes(-70, 0));
    history.record(MINUTE, new Map([['a', 100]]));
    expect([firstAt(history, 1), firstAt(history, 30), firstAt(history, 61)]).toEqual([-59, -30, 100]);
  });

  it('restored history has no value for a window that starts in a gap, including the gap before the first point of this process', () => {
    const history = createHistory(HOUR);
    history.restore([...minutes(-100, -60), ...minutes(-50, -10)]);
    history.record(0, new Map([['a', 0]]));
    const at = [0, 5, 9, 10, 49, 50, 59, 60];
    expect(at.map(minute => firstAt(history, minute))).toEqual([
      undefined,
      undefined,
      undefined,
      -50,
      -11,
      undefined,
      undefined,
      0,
    ]);
  });

  it('restored history counts the increase before a counter reset, but takes the decrease of a gauge as it is', () => {
    for (const isCounter of [true, false]) {
      const history = createHistory(HOUR, isCounter);
      history.restore([known(-59 * MINUTE, 10), known(-58 * MINUTE, 30), known(-57 * MINUTE, 4)]);
      history.record(-56 * MINUTE, new Map([['a', 6]]));
      // The counter increased by 20 before the restart and by 6 since.
      expect(6 - (firstAt(history, 1) as number)).toBe(isCounter ? 26 : -4);
    }
  });

  it('restored history treats the time between sparse points as a gap', () => {
    const history = createHistory(HOUR);
    history.restore([known(-90 * MINUTE, 1), known(-60 * MINUTE, 2), known(-30 * MINUTE, 3)]);
    history.record(0, new Map([['a', 4]]));
    expect([firstAt(history, 0), firstAt(history, 10), firstAt(history, 60)]).toEqual([2, undefined, 4]);
  });
});
