import { describe, expect, it } from 'vitest';
import { windowReason } from '../../src/auto-cancel/limits.ts';

type Windows = Parameters<typeof windowReason>[0];

const HOUR = 3_600_000;
const OFFICE = { cron: '0 8 * * 1-5', for: 9 * HOUR, tz: 'Europe/Amsterdam' };
const FREEZE = { from: Date.parse('2026-12-20T00:00:00Z'), to: Date.parse('2027-01-02T00:00:00Z'), reason: 'freeze' };

const at = (windows: Windows, time: string) => windowReason(windows, Date.parse(time)) ?? 'open';

describe('allow and deny windows', () => {
  it('the state of windows is always open if no window is configured', () =>
    expect(at({ allow: [], deny: [] }, '2027-03-01T03:00:00Z')).toBe('open'));

  // In Europe/Amsterdam, clocks change from UTC+1 to UTC+2 on Sunday 2027-03-28, and back on Sunday 2027-10-31.
  it.each([
    ['2027-03-26T06:59:59.999Z', 'window_closed'],
    ['2027-03-26T07:00:00.000Z', 'open'],
    ['2027-03-26T15:59:59.999Z', 'open'],
    ['2027-03-26T16:00:00.000Z', 'window_closed'],
    ['2027-03-28T09:00:00.000Z', 'window_closed'],
    ['2027-03-29T05:59:59.999Z', 'window_closed'],
    ['2027-03-29T06:00:00.000Z', 'open'],
    ['2027-10-29T06:00:00.000Z', 'open'],
    ['2027-11-01T06:00:00.000Z', 'window_closed'],
    ['2027-11-01T07:00:00.000Z', 'open'],
  ])('the state of windows at %s is %s', (time, expected) =>
    expect(at({ allow: [OFFICE], deny: [] }, time)).toBe(expected),
  );

  it('windows last as long as configured even if daylight saving time starts during the window', () => {
    const night = { cron: '0 22 * * 6', for: 8 * HOUR, tz: 'Europe/Amsterdam' };
    expect(at({ allow: [night], deny: [] }, '2027-03-28T04:59:59.999Z')).toBe('open');
    expect(at({ allow: [night], deny: [] }, '2027-03-28T05:00:00Z')).toBe('window_closed');
  });

  it('a window that starts in a skipped hour opens right after that hour', () => {
    const skipped = { cron: '30 2 * * *', for: HOUR / 2, tz: 'Europe/Amsterdam' };
    expect(at({ allow: [skipped], deny: [] }, '2027-03-28T00:59:59Z')).toBe('window_closed');
    expect(at({ allow: [skipped], deny: [] }, '2027-03-28T01:00:00Z')).toBe('open');
  });

  it('windows count as open while any allow window is open, including one that overlaps its next occurrence', () => {
    const long = { cron: '*/10 * * * *', for: 2 * HOUR, tz: 'UTC' };
    expect(at({ allow: [OFFICE, long], deny: [] }, '2027-03-28T12:34:56Z')).toBe('open');
  });

  it('windows are closed while a deny window is open, regardless of allow windows', () => {
    const windows = { allow: [OFFICE], deny: [FREEZE] };
    expect(at(windows, '2026-12-18T12:00:00Z')).toBe('open');
    expect(at(windows, '2026-12-21T12:00:00Z')).toBe('window_denied');
    expect(at({ allow: [], deny: [FREEZE] }, '2026-12-20T00:00:00Z')).toBe('window_denied');
    expect(at({ allow: [], deny: [FREEZE] }, '2027-01-01T23:59:59.999Z')).toBe('window_denied');
    expect(at({ allow: [], deny: [FREEZE] }, '2027-01-02T00:00:00Z')).toBe('open');
  });
});
