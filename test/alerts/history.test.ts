import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createHistory } from '../../src/alerts/history.ts';

const HOUR = 3_600_000;

it('knows nothing before its window is covered, then the first values in it', () => {
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
  // Between two points, the one before counts.
  expect(history.firsts(HOUR + 59_999)?.get('a')?.value).toBe(0);
  expect(history.firsts(HOUR + 60_000)?.get('a')?.value).toBe(60_000);
});

it('knows nothing where nothing was known when the window began', () => {
  const history = createHistory(HOUR);
  history.record(0, new Map([['a', 1]]));
  history.record(60_000, undefined);
  history.record(120_000, new Map([['a', 2]]));
  history.record(HOUR + 120_000, new Map([['a', 3]]));
  expect(history.firsts(HOUR + 60_000)).toBeUndefined();
  expect(history.firsts(HOUR + 120_000)?.get('a')).toEqual({ value: 2, isAtStart: true });
});

it('keeps a long window in few points, and never answers with one from within it', () => {
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
            // At most a point and two evaluations older than asked for.
            expect(first.value).toBeGreaterThan(at - over - over / 120 - 40_000);
          } else expect(at - over).toBeLessThan(gaps[0] as number);
        }
      },
    ),
    { numRuns: 30 },
  );
});

it('takes as little memory for a week as for an hour', () => {
  let kept = 0;
  const history = createHistory(7 * 24 * HOUR);
  // A map for each point: those that are dropped are not asked for any more.
  const counted = () => {
    const map = new Map([['a', 1]]);
    return Object.assign(map, {
      [Symbol.iterator]: () => {
        kept += 1;
        return Map.prototype.entries.call(map) as MapIterator<[string, number]>;
      },
    });
  };
  for (let at = 0; at <= 15 * 24 * HOUR; at += 15_000) history.record(at, counted());
  history.firsts(15 * 24 * HOUR);
  // What is before the window is gone.
  expect(history.firsts(14 * 24 * HOUR)).toBeUndefined();
  expect(kept).toBeGreaterThan(100);
  expect(kept).toBeLessThan(160);
});
