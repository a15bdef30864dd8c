import { expect, it } from 'vitest';
import { createQueueDeliveries } from '../../../src/collectors/events/memory.ts';
import { MAX_RANGE_PAGES, readMore, startRange } from '../../../src/collectors/events/read.ts';
import type { DeliveryEvent } from '../../../src/model/message.ts';
import type { Reader } from '../../../src/upstream/api.ts';

const AT = Date.UTC(2026, 0, 1);
const queues = { deliveries: createQueueDeliveries() };
const memory = { destinationOf: () => '', schedules: { of: () => undefined }, queues } as never;

/** Starts to read endless pages of events of one millisecond, from a range of `length` ms. */
function startEndless(isDetailed: boolean, rowOf: () => Partial<DeliveryEvent>, length = 1) {
  let count = 0;
  async function* eventPages() {
    for (;;) {
      const first = count;
      count += 1000;
      const rows = Array.from({ length: 1000 }, (_, index) => {
        return { messageId: `msg_${first + index}`, state: 'created', time: AT, ...rowOf() };
      });
      yield { rows, rejected: 0, incomplete: 0, isLast: false };
    }
  }
  const api = { eventPages } as unknown as Reader;
  const range = startRange(api, AT, AT + length - 1, isDetailed, new AbortController().signal);
  return { range, count: () => count };
}

/** Returns the number of rows that are read until an error. */
async function readAll({ range, count }: ReturnType<typeof startEndless>): Promise<number> {
  await expect(readMore(range, Number.POSITIVE_INFINITY, memory)).rejects.toThrow('events within 1 ms');
  return count();
}

it('a read of endless events within 1 ms fails before it needs 400 MB of memory', async () => {
  const before = process.memoryUsage().heapUsed;
  const endless = startEndless(false, () => ({}));
  const count = await readAll(endless);
  expect([count > 200_000, count < 400_000]).toEqual([true, true]);
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(400e6);
  expect(endless.range.events.size).toBeGreaterThan(200_000);
});

it('a read of endless events within 1 ms fails within 20,000 events if rows are large, and also fails if one row is repeated', async () => {
  const url = `https://example.com/${'x'.repeat(10_000)}`;
  expect(await readAll(startEndless(true, () => ({ url })))).toBeLessThan(20_000);
  const repeated = startEndless(false, () => ({ messageId: 'same' }));
  expect(await readAll(repeated)).toBeLessThan(400_000);
  expect(repeated.range.events.size).toBe(1);
});

it('a read of a longer range with large rows is shortened and does not fail', async () => {
  const url = `https://example.com/${'x'.repeat(10_000)}`;
  const { range } = startEndless(true, () => ({ url }), 1000);
  expect(await readMore(range, 100, memory)).toBe(false);
  expect(range.pages).toBe(MAX_RANGE_PAGES);
  expect(range.events.size).toBeLessThan(10_000);
});
