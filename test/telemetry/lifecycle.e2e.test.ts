import { describe, expect, it } from 'vitest';
import { hashedId } from '../../src/kit/hash.ts';
import { createLifecycleExport } from '../../src/telemetry/lifecycle.ts';
import { tracingOptions } from '../../src/telemetry/options.ts';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { serve } from '../support/http-service.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { startOtlpReceiver } from '../support/otlp-receiver.ts';
import { createTestLog } from '../support/silent.ts';

const NEVER = new AbortController().signal;

/** Creates an outbox that contains `traces` traces of two spans each, and an exporter for it. */
async function setUp(traces: number, endpoint?: string) {
  const receiver = await startOtlpReceiver();
  afterThisTest(() => receiver.close());
  const rows = new Map<string, string>();
  for (let number = 0; number < traces; number += 1) {
    const traceId = hashedId([number], 32);
    const events = [
      { state: 'created', time: number, dueAt: 0 },
      { state: 'cancelled', time: number + 1, dueAt: 0 },
    ];
    rows.set(traceId, JSON.stringify({ traceId, messageId: `m${number}`, events, lateEvents: 0, partial: [] }));
  }
  const counted: Record<string, number> = {};
  const clock = createManualClock();
  const log = createTestLog();
  let [fails, removals] = [false, 0];
  const lifecycles = await createLifecycleExport({
    options: tracingOptions.parse({ endpoint: endpoint ?? receiver.url }),
    env: {},
    outbox: {
      accounts: () => ['a'],
      read: async () => new Map(rows),
      async remove(_account, keys) {
        if (fails && removals-- <= 0) throw new Error('the store is full');
        for (const key of keys) rows.delete(key);
      },
    },
    spans: {
      inc({ outcome }, by = 1) {
        counted[outcome] = (counted[outcome] ?? 0) + by;
      },
    },
    log,
    clock,
    random: () => 1,
  });
  afterThisTest(() => lifecycles.close());
  /** Sets whether removals fail; if so, the first `after` removals still succeed. */
  const failStore = (isFailing: boolean, after = 0) => {
    [fails, removals] = [isFailing, after];
  };
  const run = (signal = NEVER) => lifecycles.run(signal);
  return { receiver, rows, counted, clock, log, run, failStore, close: lifecycles.close };
}

describe('outbox', () => {
  it('traces in the outbox are sent in requests of up to 100 traces and then removed', async () => {
    const { receiver, rows, counted, run } = await setUp(250);
    await run();
    expect(receiver.requests).toHaveLength(3);
    expect(receiver.spans).toHaveLength(500);
    expect(rows.size).toBe(0);
    expect(counted).toEqual({ exported: 500 });
    await run();
    expect(receiver.requests).toHaveLength(3);
  });

  it('a trace that the receiver rejects stays in the outbox and is retried with increasing delays', async () => {
    const { receiver, rows, clock, log, run } = await setUp(1);
    receiver.answer(403);
    const waits: number[] = [];
    await run();
    for (let sent = 1; sent <= 8; sent += 1) {
      expect(receiver.requests).toHaveLength(sent);
      let waited = 0;
      while (receiver.requests.length === sent) {
        await clock.advance(1000);
        waited += 1;
        await run();
      }
      waits.push(waited);
    }
    expect(waits).toEqual([5, 10, 20, 40, 80, 160, 300, 300]);
    expect(rows.size).toBe(1);
    expect(log.lines.map(({ message }) => message)).toEqual(['the trace receiver does not accept spans']);
  });

  it('a trace is sent again with the same ids if it could not be removed from the store', async () => {
    const { receiver, run, failStore, rows } = await setUp(1);
    failStore(true);
    await expect(run()).rejects.toThrow('the store is full');
    failStore(false);
    await run();
    const [first, second, ...again] = receiver.spans.map(({ traceId, spanId }) => `${traceId} ${spanId}`);
    expect(again).toEqual([first, second]);
    expect(rows.size).toBe(0);
  });

  it('a trace is not sent again if only a later batch could not be removed', async () => {
    const { receiver, run, failStore, rows } = await setUp(250);
    failStore(true, 1);
    await expect(run()).rejects.toThrow('the store is full');
    expect([receiver.spans.length, rows.size]).toEqual([400, 150]);
    failStore(false);
    await run();
    expect([receiver.spans.length, rows.size]).toEqual([700, 0]);
  });

  it('a trace is removed from the outbox if the receiver accepts it while the agent stops', async () => {
    const accepted = Promise.withResolvers<void>();
    const service = await serve(async (_request, response) => {
      await accepted.promise;
      response.end();
    });
    const { rows, run, close } = await setUp(1, service.url);
    const controller = new AbortController();
    const running = run(controller.signal);
    await eventually(() => expect(service.requests).toHaveLength(1));
    controller.abort();
    await running;
    expect(rows.size).toBe(1);
    accepted.resolve();
    await close();
    expect(rows.size).toBe(0);
  });

  it('a trace stays in the outbox if the agent stops before the receiver responds', async () => {
    const { receiver, rows, counted, run } = await setUp(1);
    receiver.answer('hang');
    const controller = new AbortController();
    const running = run(controller.signal);
    await eventually(() => expect(receiver.requests).toHaveLength(1));
    controller.abort();
    await running;
    expect(rows.size).toBe(1);
    // This request is still in flight.
    expect(counted).toEqual({});
  });
});
