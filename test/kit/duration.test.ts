import { afterEach, expect, it, vi } from 'vitest';
import { durationTexts, parseInstant } from '../../src/kit/duration.ts';

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
