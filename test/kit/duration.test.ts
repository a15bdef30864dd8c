import { afterEach, expect, it, vi } from 'vitest';
import { durationText, parseInstant } from '../../src/kit/duration.ts';

afterEach(() => vi.unstubAllEnvs());

it.each([
  ['2026-11-24T10:00', '2026-11-24T10:00:00.000Z'],
  ['2026-11-24 10:00:30', '2026-11-24T10:00:30.000Z'],
  ['2026-11-24', '2026-11-24T00:00:00.000Z'],
  ['2026-11-24T10:00Z', '2026-11-24T10:00:00.000Z'],
  ['2026-11-24T10:00+02:00', '2026-11-24T08:00:00.000Z'],
])('reads %s as %s in any time zone', (text, expected) => {
  vi.stubEnv('TZ', 'America/New_York');
  // Otherwise the test would prove nothing.
  expect(new Date(2026, 0, 1).getTimezoneOffset()).toBe(300);
  expect(new Date(parseInstant(text) ?? Number.NaN).toISOString()).toBe(expected);
});

it.each(['', '2026', '10:00', '24 Nov 2026', '2026-13-01', '2026-11-24T00:00:00 01:00'])(
  'rejects the time %j',
  text => {
    expect(parseInstant(text)).toBeUndefined();
  },
);

it('formats a duration in its two largest units, with seconds only below a minute', () => {
  expect([59.9, 60, 3660, 90_061, -5].map(durationText)).toEqual(['59 s', '1 min', '1 h 1 min', '1 d 1 h', '−5 s']);
});
