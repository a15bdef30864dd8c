import fc from 'fast-check';
import { expect, it } from 'vitest';
import { parseHttpDate, retryAfterMs } from '../../src/kit/retry-after.ts';
import { runs } from '../support/runs.ts';

const NOW = Date.UTC(2026, 10, 6, 8, 49, 37);
const HOUR = 3_600_000;

it.each([
  ['7', 7000],
  [' 7 ', 7000],
  ['007', 7000],
  ['3.0', 3000],
  ['12.5', 12_500],
  ['.5', 500],
  ['3.', 3000],
  ['0', 0],
  ['0.0004', 1],
  ['3, 3', 3000],
  ['3,5', 5000],
  ['-1, 4', 4000],
  ['soon, 4', 4000],
  ['3s', 3000],
  ['2m', 120_000],
  ['99999999999', HOUR],
  ['9'.repeat(400), HOUR],
  ['Fri, 06 Nov 2026 08:49:42 GMT', 5000],
  ['Friday, 06-Nov-26 08:49:42 GMT', 5000],
  ['Fri Nov  6 08:49:42 2026', 5000],
  ['Mon Nov 16 08:49:42 2026', HOUR],
  ['Fri, 06 Nov 2026 09:49:42 +0100', 5000],
  ['2026-11-06T08:49:42Z', 5000],
  ['2026-11-06T08:49:42', 5000],
  ['Fri, 06 Nov 2026 08:49:40 GMT, Fri, 06 Nov 2026 08:49:42 GMT', 5000],
  ['2, Friday, 06-Nov-26 08:49:42 GMT', 5000],
  ['Fri, 06 Nov 2026 08:00:00 GMT', 0],
  ['Fri, 01 Jan 9999 00:00:00 GMT', HOUR],
  ['-1', undefined],
  ['', undefined],
  [' ', undefined],
  [',', undefined],
  ['soon', undefined],
  ['NaN', undefined],
  ['Infinity', undefined],
  ['1e3', undefined],
  ['0x10', undefined],
  ['monkeys 12', undefined],
  ['Fri, 99 Nov 2026 08:49:42 GMT', undefined],
])('retryAfterMs reads %j, at most an hour', (header, wait) => expect(retryAfterMs(header, NOW)).toBe(wait));

it('retryAfterMs reads the longest of repeated headers, and none of a missing one', () => {
  expect(retryAfterMs(['2', '9', 'soon'], NOW)).toBe(9000);
  expect(retryAfterMs([], NOW)).toBeUndefined();
  expect(retryAfterMs(undefined, NOW)).toBeUndefined();
});

it('retryAfterMs never returns a negative wait, or one above an hour', () =>
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.double().map(String), fc.date({ noInvalidDate: true }).map(String)), text => {
      const wait = retryAfterMs(text, NOW) ?? 0;
      expect(wait).toBeGreaterThanOrEqual(0);
      expect(wait).toBeLessThanOrEqual(HOUR);
    }),
    { numRuns: runs(300) },
  ));

it('parseHttpDate reads any date in its three formats, regardless of the time zone of the host', () =>
  fc.assert(
    fc.property(fc.integer({ min: 0, max: Date.UTC(2049, 0) / 1000 }), seconds => {
      const at = seconds * 1000;
      const text = new Date(at).toUTCString();
      const [, day = '', month = '', year = '', time = ''] = /, (\d\d) (\w{3}) (\d{4}) (\S+)/.exec(text) ?? [];
      expect(parseHttpDate(text)).toBe(at);
      expect(parseHttpDate(`Sun ${month} ${day.replace(/^0/, ' ')} ${time} ${year}`)).toBe(at);
      expect(parseHttpDate(`Sunday, ${day}-${month}-${year.slice(2)} ${time} GMT`)).toBe(at);
    }),
    { numRuns: runs(300) },
  ));
