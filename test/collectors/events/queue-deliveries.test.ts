import { expect, it } from 'vitest';
import { createEvents, events } from '../../../src/collectors/events/events.ts';
import type { DeliveryEvent } from '../../../src/model/message.ts';
import type { EventQuery, Reader } from '../../../src/upstream/api.ts';

const MINUTE = 60_000;
const START = Date.UTC(2026, 0, 1, 12);
const at = (minutes: number) => START + minutes * MINUTE;

/** Reads the log at some minutes. Returns the deliveries by queue (minutes after the start). */
async function setUp(stored: ReadonlyMap<string, string> = new Map()) {
  const log: DeliveryEvent[] = [];
  const collector = createEvents(events.options.parse({}));
  let memory = collector.restore(stored);
  const rows = new Map<string, string>();
  const api = {
    async *eventPages({ fromDate = 0, toDate = 0 }: EventQuery) {
      const found = log.filter(({ time }) => time >= fromDate && time <= toDate);
      yield { rows: found, rejected: 0, incomplete: 0, isLast: true };
    },
  } as unknown as Reader;
  return {
    rows,
    add: (minutes: number, state: DeliveryEvent['state'], queue: string | undefined, messageId = `${minutes}`) =>
      log.push({ messageId, time: at(minutes), state, queue } as DeliveryEvent),
    async read(minutes: number) {
      const { signal } = new AbortController();
      const context = { api, round: 'tail', now: at(minutes), memory, walk: undefined, signal };
      const folded = (await collector.observe(context)).fold(memory);
      memory = folded.memory;
      for (const { key, value } of folded.changes) value === null ? rows.delete(key) : rows.set(key, value);
      const { from = 0, deliveries = new Map<string, number>() } = folded.facts?.queues ?? {};
      const shown = [...deliveries].map(([queue, time]) => [queue, time === 0 ? 'none' : (time - START) / MINUTE]);
      return { from: (from - START) / MINUTE, ...Object.fromEntries(shown) };
    },
  };
}

it('the last delivery of each queue is known as soon as the log lists events of the queue', async () => {
  const { add, read } = await setUp();
  expect(await read(0)).toEqual({ from: -5 });
  add(0.5, 'created', 'mail');
  add(0.6, 'created', undefined);
  add(0.7, 'delivered', undefined);
  expect(await read(1)).toEqual({ from: -5, mail: 'none' });
  add(1.5, 'delivered', 'mail');
  add(1.7, 'error', 'reports');
  expect(await read(2)).toEqual({ from: -5, mail: 1.5, reports: 'none' });
  add(2.5, 'active', 'mail');
  add(1.2, 'delivered', 'mail');
  expect(await read(3)).toEqual({ from: -5, mail: 1.5, reports: 'none' });
});

it('after a restart, deliveries are counted from the first range that the new process reads', async () => {
  const first = await setUp();
  await first.read(0);
  first.add(1, 'delivered', 'mail');
  await first.read(2);
  const { add, read } = await setUp(first.rows);
  add(1, 'delivered', 'mail', 'other');
  add(30, 'delivered', 'reports');
  const { from, ...deliveries } = await read(31);
  expect(deliveries).toEqual({ mail: 1, reports: 30 });
  expect(from).toBeGreaterThan(-5);
  expect(from).toBeLessThanOrEqual(1);
});
