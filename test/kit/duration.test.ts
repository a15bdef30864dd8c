import fc from 'fast-check';
import { afterEach, expect, it, vi } from 'vitest';
import { durationText, durationTexts, parseInstant } from '../../src/kit/duration.ts';
import { duration } from '../../src/status/page/assets/age.js';

afterEach(() => vi.unstubAllEnvs());

it.each([
  [90_000, 86_400, ['1 d 1 h', '1 d']],
  [86_700, 86_400, ['1 d 5 min', '1 d']],
  [86_420, 86_400, ['1 d 20 s', '1 d']],
  [86_400, 86_400, ['1 d', '1 d']],
  [-61, -60, ['−1 min 1 s', '−1 min']],
])('durationTexts formats a time of %d s and its limit of %d s', (time, limit, texts) =>
  expect(durationTexts(time, limit)).toEqual(texts),
);

it.each([
  ['2026-11-18', '2026-11-18T00:00:00.000Z'],
  ['2026-11-18T14:00', '2026-11-18T14:00:00.000Z'],
  ['2026-11-18 14:00:05', '2026-11-18T14:00:05.000Z'],
  ['2026-11-18T14:00:05.250Z', '2026-11-18T14:00:05.250Z'],
  ['2026-11-18T14:00+09:00', '2026-11-18T05:00:00.000Z'],
  ['2026-11-18T14:00:00-0130', '2026-11-18T15:30:00.000Z'],
  ['1960-01-01', '1960-01-01T00:00:00.000Z'],
])('parseInstant parses %s as %s regardless of the time zone of the process', (text, iso) => {
  for (const zone of ['UTC', 'Asia/Tokyo', 'America/New_York']) {
    vi.stubEnv('TZ', zone);
    expect(new Date(parseInstant(text) ?? Number.NaN).toISOString()).toBe(iso);
  }
});

it.each([
  ...['', '0', '1', '-1', 'x 1', 'Infinity', '1795489842063', '2026', '2026-11', '2026-02-31', '2026-13-01'],
  ...['2026-11-18x', '2026-11-18T25:00', '2026-11-18T14', '2026-11-18T14:00 PST', '+275760-09-13', ' 2026-11-18'],
])('parseInstant rejects %j', text => expect(parseInstant(text)).toBeUndefined());

it.each([
  [0, '0 s'],
  [0.158, '158 ms'],
  [0.9999, '999 ms'],
  [8.57, '8.5 s'],
  [59.9, '59 s'],
  [60, '1 min'],
  [61, '1 min 1 s'],
  [91, '1 min 31 s'],
  [599.9, '9 min 59 s'],
  [600, '10 min'],
  [754, '12 min'],
  [3599, '59 min'],
  [33_130, '9 h 12 min'],
  [-91, '−1 min 31 s'],
])('commands and pages format a duration of %d s as %s', (seconds, text) => {
  expect(durationText(seconds)).toBe(text);
  expect(duration(seconds)).toBe(text);
});

it('commands and pages format every duration alike', () => {
  const seconds = fc.oneof(
    fc.double({ noNaN: true, min: -1000, max: 1000 }),
    fc.double({ noNaN: true, min: 0, max: 1e7 }),
  );
  fc.assert(fc.property(seconds, seconds => void expect(duration(seconds)).toBe(durationText(seconds))));
});
