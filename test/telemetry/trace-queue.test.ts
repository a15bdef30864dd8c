import { expect, it } from 'vitest';
import type { LifecycleTrace } from '../../src/model/lifecycle-trace.ts';
import { createTraceQueue, MAX_PENDING } from '../../src/telemetry/trace-queue.ts';
import { createTestLog } from '../support/silent.ts';

const TWO_SPANS: LifecycleTrace = {
  traceId: 'f'.repeat(32),
  messageId: 'm',
  events: [
    { state: 'created', time: 1, dueAt: 0 },
    { state: 'cancelled', time: 2, dueAt: 0 },
  ],
  hasFlowControlKey: false,
  lateEvents: 0,
  partial: [],
};

it('a full queue counts the spans of dropped traces, and logs again only after it has been empty', () => {
  let dropped = 0;
  const log = createTestLog();
  const spans = {
    inc({ outcome }: { outcome: string }, by = 1) {
      expect(outcome).toBe('dropped');
      dropped += by;
    },
  };
  const queue = createTraceQueue('a', { spans, log });
  queue.restore(MAX_PENDING - 1);
  expect([1, 2, 3].map(() => queue.add(TWO_SPANS))).toEqual([true, false, false]);
  expect(dropped).toBe(4);
  // A slow receiver frees some capacity, and the queue soon fills up again.
  queue.removed(100);
  for (let number = 0; number < 100; number += 1) expect(queue.add(TWO_SPANS)).toBe(true);
  expect(queue.add(TWO_SPANS)).toBe(false);
  const lines = () => log.lines.map(({ level, fields, message }) => [level, fields, message]);
  const line = ['warn', { account: 'a', waiting: 10_000 }, 'the queue of message traces is full: new ones are dropped'];
  expect(lines()).toEqual([line]);
  // The receiver accepted all traces and is unavailable again.
  queue.removed(MAX_PENDING);
  queue.restore(MAX_PENDING);
  queue.add(TWO_SPANS);
  expect(lines()).toEqual([line, line]);
});
