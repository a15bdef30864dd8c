import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { openSqliteStore } from '../../src/store/sqlite.ts';
import { createAgent, unlimited } from '../support/agent.ts';
import { createChance } from '../support/chance.ts';
import { afterThisTest } from '../support/client.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { startOtlpReceiver } from '../support/otlp-receiver.ts';
import { parseExposition } from '../support/parse-exposition.ts';
import { requireProgram, startPrometheus } from '../support/prometheus.ts';

const BODY = 'canary-body';
const SECRET = 'canary-header';
const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

/** Creates an emulated service without workload, a trace receiver and an agent. */
async function setUp() {
  const emulator = await emulateEmpty();
  const receiver = await startOtlpReceiver();
  afterThisTest(() => receiver.close());
  const agent = createAgent(
    {
      accounts: [unlimited('a', emulator.url)],
      collect: {
        flowControl: { enabled: false },
        dlq: { enabled: false },
        events: { every: '200ms', overlap: '1s' },
      },
      tracing: {
        enabled: true,
        endpoint: receiver.url,
        sampleRatio: 0,
        lifecycle: { enabled: true, sampleRatio: 0 },
      },
    },
    { DELIVERY_TOKEN: emulator.token },
  );
  /** Starts the agent and waits until it counts and traces new events. */
  async function start(): Promise<string> {
    const url = await agent.start();
    await eventually(async () =>
      expect(await (await fetch(`${url}/metrics`)).text()).toContain(
        'delivery_collector_success{account="a",collector="events",round="tail"} 1',
      ),
    );
    return url;
  }
  /** Kills the agent. Returns the ids of traces without a recorded delivery. */
  async function kill(): Promise<string[]> {
    await agent.end();
    const store = await openSqliteStore({ path: agent.store });
    const waiting = await store.scan('a', 'events/outbox/');
    await store.close();
    return [...waiting.values()].map(text => JSON.parse(text).traceId);
  }
  /** Adds the events of a message that fails. */
  function fail(messageId: string) {
    const time = Date.now();
    const header = { Traceparent: [TRACEPARENT], Authorization: [SECRET] };
    const message = { messageId, url: `https://api.example.com/hook?key=${SECRET}`, header, body: BODY };
    emulator.state.addEvents([
      { ...message, time, state: 'created' },
      { ...message, time: time + 10, state: 'active' },
      { ...message, time: time + 60, state: 'error', responseStatus: 503, error: SECRET },
      { ...message, time: time + 60, state: 'retry', nextDeliveryTime: time + 100 },
      { ...message, time: time + 110, state: 'active' },
      { ...message, time: time + 150, state: 'error', responseStatus: 500, error: SECRET },
      { ...message, time: time + 150, state: 'failed', responseStatus: 500, error: SECRET },
    ]);
    return time;
  }
  return { receiver, agent, start, kill, fail };
}

describe('message traces', () => {
  it('traces of messages contain all spans and no secrets or bodies', async () => {
    const { receiver, agent, start, fail } = await setUp();
    const url = await start();
    const time = fail('msg_failed');
    await eventually(() => expect(receiver.spans.length).toBeGreaterThan(0));
    const spans = receiver.spans.map(({ name, kind, start, end, isError }) => [
      name,
      kind,
      start - time,
      end - time,
      isError,
    ]);
    expect(spans).toEqual([
      ['deliver api.example.com', 'internal', 0, 150, true],
      ['wait', 'internal', 0, 10, false],
      ['POST', 'client', 10, 60, true],
      ['POST', 'client', 110, 150, true],
      ['backoff', 'internal', 60, 110, false],
    ]);
    const [root, ...children] = receiver.spans;
    expect(root).toMatchObject({
      parentSpanId: '',
      resource: { 'service.name': 'message-delivery', 'telemetry.source': 'event-log' },
      attributes: { 'messaging.message.id': 'msg_failed', 'delivery.outcome': 'failed', 'error.type': '500' },
      events: [{ name: 'dead_lettered', time: time + 150 }],
      links: [{ traceId: TRACEPARENT.split('-')[1], spanId: TRACEPARENT.split('-')[2] }],
    });
    for (const { traceId, parentSpanId } of children)
      expect([traceId, parentSpanId]).toEqual([root?.traceId, root?.spanId]);
    for (const secret of [BODY, Buffer.from(BODY).toString('base64'), SECRET]) {
      expect(receiver.raw().includes(secret), secret).toBe(false);
    }
    // The attempt histogram links to the trace, but only in OpenMetrics.
    const accept = { accept: 'application/openmetrics-text' };
    const text = await (await fetch(`${url}/metrics`, { headers: accept })).text();
    parseExposition(text, 'openmetrics');
    expect(text).toContain(
      `delivery_message_attempts_bucket{account="a",outcome="failed",le="2.0"} 1 # {trace_id="${root?.traceId}"} 2 `,
    );
    expect(await (await fetch(`${url}/metrics`)).text()).not.toContain('trace_id');
    expect(await agent.end('SIGTERM')).toBe(0);
  });

  it('traces of messages are sent once despite repeated kills; only traces without a recorded delivery may be repeated', async () => {
    const { receiver, start, kill, fail } = await setUp();
    const chance = createChance();
    /** Maximum number of deliveries of a trace: one, plus one for each kill before its delivery was recorded. */
    const allowed = new Map<string, number>();
    async function killAndCount(): Promise<void> {
      for (const id of await kill()) allowed.set(id, (allowed.get(id) ?? 1) + 1);
    }
    await start();
    let messages = 0;
    for (let kills = 0; kills < 6; kills += 1) {
      for (let number = 0; number < 20; number += 1) {
        fail(`msg_${messages}`);
        messages += 1;
      }
      // Kill the agent at a random point of the delivery.
      await sleep(chance.between(0, 3000));
      await killAndCount();
      await start();
    }
    const ids = () => receiver.spans.map(({ traceId, spanId }) => `${traceId} ${spanId}`);
    await eventually(() => expect(new Set(ids()).size).toBe(messages * 5));
    // The receiver may get the last traces before the agent records their delivery.
    await killAndCount();
    await start();
    fail('msg_last');
    // The newest trace is sent last.
    await eventually(() => expect(new Set(ids()).size).toBe((messages + 1) * 5));

    const roots = receiver.spans.filter(({ parentSpanId }) => parentSpanId === '');
    const times = Map.groupBy(roots, ({ traceId }) => traceId);
    expect(times.size).toBe(messages + 1);
    expect(new Set(roots.map(({ attributes }) => attributes['messaging.message.id'])).size).toBe(messages + 1);
    const tooOften = [...times].filter(([id, { length }]) => length > (allowed.get(id) ?? 1));
    expect(tooOften).toEqual([]);
    // A trace that is sent again is complete and identical.
    expect(receiver.spans.length).toBe(roots.length * 5);
  });

  it('traces of messages wait for an unavailable receiver without delaying collection', async () => {
    const { receiver, agent, start, fail } = await setUp();
    receiver.answer(503);
    const url = await start();
    fail('msg_waiting');
    await agent.process.says(/"about":"messages".*the trace receiver does not accept spans/);
    expect(await (await fetch(`${url}/metrics`)).text()).toContain('delivery_up{account="a"} 1');
    expect(receiver.spans).toEqual([]);
    expect(await agent.end('SIGTERM')).toBe(0);
    receiver.answer(200);
    await start();
    await eventually(() => expect(receiver.spans).toHaveLength(5));
  });
});

describe.skipIf(!requireProgram('prometheus'))('exemplars', () => {
  it('exemplars link from a real Prometheus to a trace in the receiver', async () => {
    const { receiver, start, fail } = await setUp();
    const url = await start();
    const prometheus = await startPrometheus({
      scrapeConfigs: [{ job_name: 'agent', static_configs: [{ targets: [new URL(url).host] }] }],
      flags: ['--enable-feature=exemplar-storage'],
    });
    afterThisTest(() => prometheus.stop());
    fail('msg_exemplar');
    await eventually(async () => {
      const query = new URLSearchParams({
        query: 'delivery_message_attempts_bucket',
        start: String(Date.now() / 1000 - 600),
        end: String(Date.now() / 1000 + 60),
      });
      const series = (await prometheus.get(`/api/v1/query_exemplars?${query}`)) as {
        exemplars: { labels: { trace_id: string }; value: string }[];
      }[];
      const [exemplar] = series.flatMap(({ exemplars }) => exemplars);
      const root = receiver.spans.find(
        ({ traceId, parentSpanId }) => traceId === exemplar?.labels.trace_id && parentSpanId === '',
      );
      expect(root?.attributes['messaging.message.id']).toBe('msg_exemplar');
      expect(exemplar?.value).toBe('2');
    });
  });
});
