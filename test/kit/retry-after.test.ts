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
  ['0', 0],
  ['0.0004', 1],
  ['99999999999', HOUR],
  ['9'.repeat(400), HOUR],
  ['Fri, 06 Nov 2026 08:49:42 GMT', 5000],
  ['Fri, 06 Nov 2026 08:00:00 GMT', 0],
  ['Fri, 01 Jan 9999 00:00:00 GMT', HOUR],
  ['-1', undefined],
  ['', undefined],
  [' ', undefined],
  [undefined, undefined],
  [['2', '9'], undefined],
  ['3, 3', undefined],
  ['3s', undefined],
  ['Fri, 06 Nov 2026 09:49:42 +0100', undefined],
  ['Mon, 16 Nov 2026 08:49:42 GMT', HOUR],
  ['soon', undefined],
  ['NaN', undefined],
  ['Infinity', undefined],
  ['1e3', undefined],
  ['0x10', undefined],
  ['monkeys 12', undefined],
  ['Fri, 99 Nov 2026 08:49:42 GMT', undefined],
])('retryAfterMs reads %j, at most an hour', (header, wait) => expect(retryAfterMs(header, NOW)).toBe(wait));

it('retryAfterMs never returns a negative time or more than an hour', () =>
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.double().map(String), fc.date({ noInvalidDate: true }).map(String)), text => {
      const wait = retryAfterMs(text, NOW) ?? 0;
      expect(wait).toBeGreaterThanOrEqual(0);
      expect(wait).toBeLessThanOrEqual(HOUR);
    }),
    { numRuns: runs(300) },
  ));

it('parseHttpDate reads any date, regardless of the time zone of the host', () =>
  fc.assert(
    fc.property(fc.integer({ min: 0, max: Date.UTC(2049, 0) / 1000 }), seconds => {
      expect(parseHttpDate(new Date(seconds * 1000).toUTCString())).toBe(seconds * 1000);
    }),
    { numRuns: runs(300) },
  ));
