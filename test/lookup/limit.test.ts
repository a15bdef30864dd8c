import { expect, it } from 'vitest';
import { limitLookups, MAX_PER_MINUTE } from '../../src/lookup/limit.ts';
import { createBudget } from '../../src/upstream/budget.ts';
import { createManualClock } from '../support/manual-clock.ts';

const { signal } = new AbortController();
const NOON = Date.UTC(2026, 0, 1, 12);
const HALF_DAY = 43_200_000;

function start(requestsPerDay: number, spent = 0) {
  const clock = createManualClock(NOON);
  const limits = { requestsPerSecond: 10_000, burst: 10_000, concurrency: 100, requestsPerDay };
  const before = { day: Math.floor(NOON / 86_400_000), requests: spent };
  const budget = limitLookups(
    createBudget(limits, clock, () => undefined, before),
    limits,
    clock,
  );
  const runs = (priority: 'browser' | 'dlq') => budget.run(priority, signal, async () => 'sent');
  async function many(count: number): Promise<void> {
    for (let index = 0; index < count; index += 1) await runs('browser');
  }
  return { clock, runs, many };
}

it('limitLookups limits the requests of look-ups per minute, but no other requests', async () => {
  const { clock, runs, many } = start(1_000_000);
  await runs('browser');
  await clock.advance(10_000);
  await many(MAX_PER_MINUTE - 1);
  await expect(runs('browser')).rejects.toMatchObject({
    message: `look-ups may use ${MAX_PER_MINUTE} requests per minute`,
    retryAfter: 50_000,
  });
  expect(await runs('dlq')).toBe('sent');
  await clock.advance(50_000);
  await many(1);
  await expect(runs('browser')).rejects.toMatchObject({ retryAfter: 10_000 });
});

it('limitLookups limits look-ups to a tenth of the daily budget', async () => {
  const { clock, runs, many } = start(50);
  await many(5);
  const error = { message: 'look-ups have used their 5 requests of this UTC day', retryAfter: HALF_DAY };
  await expect(runs('browser')).rejects.toMatchObject(error);
  expect(await runs('dlq')).toBe('sent');
  await clock.advance(HALF_DAY);
  expect(await runs('browser')).toBe('sent');
});

it('limitLookups rejects look-ups if only the part of the daily budget reserved for actions is left', async () => {
  const { runs } = start(1000, 900);
  await expect(runs('browser')).rejects.toMatchObject({
    message: 'the daily request budget is used up until 00:00 UTC',
    retryAfter: HALF_DAY,
  });
});
