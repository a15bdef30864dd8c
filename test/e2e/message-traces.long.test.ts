import { setTimeout as sleep } from 'node:timers/promises';
import { context, propagation, SpanKind, trace } from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { NodeSDK } from '@opentelemetry/sdk-node';
import { SimpleSpanProcessor } from '@opentelemetry/sdk-trace';
import { describe, expect, it } from 'vitest';
import type { EventState } from '../../src/model/message.ts';
import { createAgent, unlimited } from '../support/agent.ts';
import { createChance } from '../support/chance.ts';
import { afterThisTest } from '../support/client.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { type ReceivedSpan, startOtlpReceiver } from '../support/otlp-receiver.ts';

const BODY = 'canary-body';
const SECRET = 'canary-header';

/** Returns a publisher that uses OpenTelemetry's SDK and sends its spans to the receiver. */
function createPublisher(url: string) {
  const exporter = new OTLPTraceExporter({ url: `${url}/v1/traces` });
  const sdk = new NodeSDK({
    serviceName: 'shop',
    spanProcessors: [new SimpleSpanProcessor({ exporter })],
    metricReaders: [],
    logRecordProcessors: [],
    instrumentations: [],
  });
  sdk.start();
  afterThisTest(async () => {
    await sdk.shutdown();
    for (const api of [trace, context, propagation]) api.disable();
  });
  return {
    /** Publishes in a span, and returns the headers of the message. */
    publish(): Readonly<Record<string, string>> {
      return trace.getTracer('shop').startActiveSpan('publish', { kind: SpanKind.PRODUCER }, span => {
        const headers: Record<string, string> = {};
        propagation.inject(context.active(), headers);
        span.end();
        return headers;
      });
    },
  };
}

/** Creates an emulated service without workload, a trace receiver, a publisher and an agent. */
async function setUp(env: Readonly<Record<string, string>> = {}) {
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
      tracing: { enabled: true, endpoint: receiver.url, sampleRatio: 0, messages: true },
    },
    { DELIVERY_TOKEN: emulator.token, OTEL_BSP_SCHEDULE_DELAY: '200', ...env },
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
  /** Adds events of a message. */
  function log(
    messageId: string,
    headers: Readonly<Record<string, string>>,
    events: readonly (readonly [state: EventState, time: number, status?: number | undefined])[],
    more: object = {},
  ): void {
    const named = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value]]));
    const header = { ...named, Authorization: [SECRET] };
    const message = { messageId, url: `https://api.example.com/hook?key=${SECRET}`, header, body: BODY, ...more };
    emulator.state.addEvents(
      events.map(([state, time, responseStatus]) => ({
        ...message,
        time,
        state: state as Exclude<EventState, 'unknown'>,
        ...(responseStatus === undefined ? {} : { responseStatus, error: SECRET }),
      })),
    );
  }
  /** Adds the events of a message that is delivered after two retries. */
  function deliver(messageId: string, headers: Readonly<Record<string, string>>, more?: object): number {
    const time = Date.now();
    const states = [
      ['created', 0],
      ['active', 10],
      ['error', 60, 503],
      ['retry', 60],
      ['active', 110],
      ['error', 150, 500],
      ['retry', 150],
      ['active', 210],
      ['delivered', 250, 200],
    ] as const;
    log(
      messageId,
      headers,
      states.map(([state, after, status]) => [state, time + after, status] as const),
      more,
    );
    return time;
  }
  const publisher = createPublisher(receiver.url);
  const ofService = () => receiver.spans.filter(({ resource }) => resource['service.name'] === 'message-delivery');
  return { receiver, agent, start, log, deliver, ofService, publish: publisher.publish };
}

const byStart = (spans: readonly ReceivedSpan[]) => spans.toSorted((a, b) => a.start - b.start || b.end - a.end);

/** Returns the spans of the trace as an indented tree. */
function treeOf(spans: readonly ReceivedSpan[], parent = '', indent = ''): string[] {
  return byStart(spans.filter(({ parentSpanId }) => parentSpanId === parent)).flatMap(span => [
    `${indent}${span.resource['service.name']} ${span.kind} ${span.name}${span.isError ? ' error' : ''}`,
    ...treeOf(spans, span.spanId, `${indent}  `),
  ]);
}

describe('message traces', () => {
  it('the spans of a message with three attempts join its publisher’s trace as a delivery span with three children', async () => {
    const { receiver, agent, start, deliver, publish } = await setUp({
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test,service.name=renamed',
    });
    const url = await start();
    const time = deliver('msg_1', publish());
    deliver('msg_untraced', {});
    deliver('msg_unsampled', { traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-00` });
    await eventually(() => expect(receiver.spans).toHaveLength(5));
    expect(new Set(receiver.spans.map(({ traceId }) => traceId)).size).toBe(1);
    expect(treeOf(receiver.spans)).toEqual([
      'shop producer publish',
      '  message-delivery internal deliver api.example.com',
      '    message-delivery client POST error',
      '    message-delivery client POST error',
      '    message-delivery client POST',
    ]);
    const [delivery, ...attempts] = byStart(receiver.spans.filter(({ name }) => name !== 'publish'));
    expect([delivery, ...attempts].map(span => [(span?.start ?? 0) - time, (span?.end ?? 0) - time])).toEqual([
      [0, 250],
      [10, 60],
      [110, 150],
      [210, 250],
    ]);
    expect(delivery?.attributes).toMatchObject({
      'messaging.message.id': 'msg_1',
      'messaging.destination.name': 'api.example.com',
      'messaging.message_delivery.outcome': 'delivered',
      'messaging.message_delivery.attempts': 3,
      'server.address': '127.0.0.1',
    });
    expect(attempts.map(({ attributes }) => attributes['http.request.resend_count'])).toEqual([undefined, 1, 2]);
    expect(attempts.map(({ attributes }) => attributes['error.type'])).toEqual(['503', '500', undefined]);
    // The resource is the service: the variables of the agent do not apply.
    for (const { resource, resourceSchema, scopeSchema } of [delivery, ...attempts] as ReceivedSpan[]) {
      expect(resource).toEqual({ 'service.name': 'message-delivery', 'service.instance.id': 'a' });
      expect([resourceSchema, scopeSchema]).toEqual(Array(2).fill('https://opentelemetry.io/schemas/1.45.0'));
    }
    for (const secret of [BODY, Buffer.from(BODY).toString('base64'), SECRET])
      expect(receiver.raw().includes(secret), secret).toBe(false);
    const plain = await (await fetch(`${url}/metrics`)).text();
    expect(plain).toContain('delivery_watch_spans_total{outcome="exported"} 4');
    expect(await agent.end('SIGTERM')).toBe(0);
  });

  it('each message of a schedule has a separate trace with a link to the publisher’s span', async () => {
    const { start, deliver, publish, ofService } = await setUp();
    await start();
    const headers = publish();
    const [, traceId, spanId] = (headers.traceparent ?? '').split('-');
    for (const id of ['msg_1', 'msg_2']) deliver(id, headers, { scheduleId: 'nightly' });
    await eventually(() => expect(ofService()).toHaveLength(8));
    const roots = ofService().filter(({ parentSpanId }) => parentSpanId === '');
    expect(roots.map(({ links }) => links)).toEqual([[{ traceId, spanId }], [{ traceId, spanId }]]);
    const traceIds = new Set(ofService().map(span => span.traceId));
    expect(traceIds.size).toBe(2);
    expect(traceIds.has(String(traceId))).toBe(false);
  });

  it('a trace is complete if the agent restarts between two attempts', async () => {
    const { receiver, agent, start, log, publish, ofService } = await setUp();
    const headers = publish();
    await start();
    const time = Date.now();
    log('msg_1', headers, [
      ['created', time],
      ['active', time + 10],
      ['error', time + 60, 503],
    ]);
    await eventually(() => expect(ofService()).toHaveLength(1));
    expect(await agent.end('SIGTERM')).toBe(0);
    await start();
    const later = Date.now();
    log('msg_1', headers, [
      ['active', later],
      ['error', later + 20, 500],
      ['active', later + 30],
      ['delivered', later + 40, 200],
    ]);
    await eventually(() => expect(ofService()).toHaveLength(4));
    expect(treeOf(receiver.spans)).toHaveLength(5);
    expect(await agent.end('SIGTERM')).toBe(0);
    expect(ofService()).toHaveLength(4);
  });

  it('no span id appears twice with different content, even if the agent is killed repeatedly', async () => {
    const { agent, start, deliver, publish, ofService } = await setUp();
    const chance = createChance();
    let messages = 0;
    for (let kills = 0; kills < 3; kills += 1) {
      await start();
      for (let number = 0; number < 20; number += 1) {
        deliver(`msg_${messages}`, publish());
        messages += 1;
      }
      // Kill the agent at a random point of the export.
      await sleep(chance.between(0, 2500));
      await agent.end();
    }
    await start();
    deliver('msg_last', publish());
    await eventually(() =>
      expect(ofService().map(({ attributes }) => attributes['messaging.message.id'])).toContain('msg_last'),
    );
    expect(await agent.end('SIGTERM')).toBe(0);
    const contents = Map.groupBy(ofService(), ({ spanId }) => spanId);
    for (const same of contents.values()) expect(new Set(same.map(span => JSON.stringify(span))).size).toBe(1);
    const deliveries = ofService().filter(({ name }) => name.startsWith('deliver'));
    expect(new Set(deliveries.map(({ spanId }) => spanId)).size).toBe(
      new Set(deliveries.map(({ attributes }) => attributes['messaging.message.id'])).size,
    );
  });

  it('an unavailable receiver does not delay collection, and lost spans are counted', async () => {
    const { receiver, agent, start, deliver, publish } = await setUp({ OTEL_EXPORTER_OTLP_TIMEOUT: '300' });
    const headers = publish();
    await eventually(() => expect(receiver.spans).toHaveLength(1));
    receiver.answer(503);
    const url = await start();
    deliver('msg_lost', headers);
    await agent.process.says(/the trace receiver does not accept spans/);
    await eventually(async () => {
      const text = await (await fetch(`${url}/metrics`)).text();
      expect(text).toContain('delivery_up{account="a"} 1');
      expect(text).toContain('delivery_watch_spans_total{outcome="failed"} 4');
    });
    receiver.answer(200);
    deliver('msg_sent', headers);
    await eventually(() => expect(receiver.spans).toHaveLength(5));
  });
});
