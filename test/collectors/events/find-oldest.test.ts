import fc from 'fast-check';
import { expect, it } from 'vitest';
import { findOldest } from '../../../src/collectors/events/replay.ts';
import { runs } from '../../support/runs.ts';
import { createLog, HOUR, type LogShape, MINUTE } from './fake-log.ts';

const { signal } = new AbortController();

/** Runs `findOldest` on a log that has an event every minute from `begin` on. Times are in ms after the start of the range. */
async function find(begin: number, span: number, shape?: LogShape) {
  const log = createLog(shape);
  const from = log.clock.now;
  for (let time = begin; time <= span; time += MINUTE) log.add(`msg_${time}`, ['created'], from + time);
  log.clock.now += span;
  const oldest = await findOldest(log.api, { from, to: from + span }, signal);
  return { after: oldest === undefined ? undefined : oldest - from, requests: log.service.requests };
}

it('findOldest finds the start of the log to within an hour by bisection', async () => {
  await fc.assert(
    fc.asyncProperty(fc.nat(48 * HOUR), fc.integer({ min: 1, max: 48 * HOUR }), async (begin, span) => {
      const { after, requests } = await find(begin, span);
      expect(requests).toBeLessThanOrEqual(Math.ceil(Math.log2(Math.max(1, span / HOUR))) + 2);
      if (after === undefined) expect(begin).toBeGreaterThan(span);
      else if (span > HOUR) {
        expect(begin - after).toBeGreaterThanOrEqual(0);
        expect(begin - after).toBeLessThanOrEqual(HOUR + MINUTE);
      } else expect(after).toBe(0);
    }),
    { numRuns: runs(60) },
  );
});

it('findOldest returns the start of the range after one request if the service ignores the end of the range', async () => {
  expect(await find(20 * HOUR, 21 * HOUR, { page: 10, ignores: ['to'] })).toEqual({ after: 0, requests: 1 });
});

it('findOldest treats unreadable rows as listed events', async () => {
  async function* eventPages() {
    yield { rows: [], rejected: 1, isLast: true };
  }
  expect(await findOldest({ eventPages }, { from: 0, to: 48 * HOUR }, signal)).toBe(0);
});
