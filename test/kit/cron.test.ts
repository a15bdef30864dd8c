import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CronText, createOccurrences, TimeZone } from '../../src/kit/cron.ts';
import { clockChange } from '../support/clock-changes.ts';
import { runs } from '../support/runs.ts';

/** Lists occurrences in UTC. If clocks show the local time of an occurrence twice, both times are listed as `first / second`. */
function list(cron: string, after: string, count: number, tz = 'Europe/Berlin'): string[] {
  const next = createOccurrences(cron, tz);
  const short = (time: number) => new Date(time).toISOString().slice(5, 16);
  const found: string[] = [];
  let at = Date.parse(after);
  while (found.length < count) {
    const due = next(at);
    if (!due) break;
    found.push(due.again === due.at ? short(due.at) : `${short(due.at)} / ${short(due.again)}`);
    at = due.at;
  }
  return found;
}

describe('occurrences', () => {
  it('occurrences of a cron expression are listed in order', () =>
    expect(list('*/20 3 * * *', '2026-06-01T00:00:00Z', 4)).toEqual([
      '06-01T01:00',
      '06-01T01:20',
      '06-01T01:40',
      '06-02T01:00',
    ]));

  it('a local time skipped by the change to daylight saving time is not an occurrence', () => {
    expect(list('30 2 * * *', '2026-03-27T12:00:00Z', 3)).toEqual(['03-28T01:30', '03-30T00:30', '03-31T00:30']);
    expect(list('15 * * * *', '2026-03-29T00:00:00Z', 3)).toEqual(['03-29T00:15', '03-29T01:15', '03-29T02:15']);
  });

  it('a local time repeated by daylight saving is one occurrence with two times', () => {
    expect(list('30 2 * * *', '2026-10-24T12:00:00Z', 2)).toEqual(['10-25T00:30 / 10-25T01:30', '10-26T01:30']);
    expect(list('0,30 * * * *', '2026-10-24T23:30:00Z', 4)).toEqual([
      '10-25T00:00 / 10-25T01:00',
      '10-25T00:30 / 10-25T01:30',
      '10-25T02:00',
      '10-25T02:30',
    ]);
    expect(list('45 1 * * *', '2026-04-04T00:00:00Z', 2, 'Australia/Lord_Howe')).toEqual([
      '04-04T14:45 / 04-04T15:15',
      '04-05T15:15',
    ]);
    expect(list('15 1,2 * * *', '2026-10-24T12:00:00Z', 3, 'Antarctica/Troll')).toEqual([
      '10-24T23:15 / 10-25T01:15',
      '10-25T00:15 / 10-25T02:15',
      '10-26T01:15',
    ]);
  });

  it('occurrences equal a minute-by-minute reading of the local clock while clocks change', () =>
    fc.assert(
      fc.property(clockChange, ({ cron, tz, start, end, expected }) => {
        const next = createOccurrences(cron, tz);
        const found: number[][] = [];
        for (let due = next(start); due && due.at <= end; due = next(due.at)) {
          found.push(due.again === due.at ? [due.at] : [due.at, due.again]);
        }
        expect(found).toEqual(expected);
      }),
      { numRuns: runs(60) },
    ));
});

it('cron settings must be expressions with five fields and at least one occurrence', () => {
  for (const good of ['0 8 * * 1-5', '*/10 * * * *', '0 0 29 2 *', ' 0 8  * * MON ']) {
    expect([good, CronText.safeParse(good).success]).toEqual([good, true]);
  }
  const wrong = [
    '',
    '0 8 * *',
    '0 0 8 * * 1',
    '@daily',
    '2027-01-01T00:00:00',
    '0 25 * * *',
    'a b c d e',
    '0 0 31 2 *',
  ];
  for (const bad of wrong) expect([bad, CronText.safeParse(bad).success]).toEqual([bad, false]);
});

it('time zone settings must be IANA time zones', () => {
  for (const [name, isZone] of [
    ['Europe/Amsterdam', true],
    ['UTC', true],
    ['Mars/Olympus', false],
    ['', false],
  ] as const) {
    expect([name, TimeZone.safeParse(name).success]).toEqual([name, isZone]);
  }
});
