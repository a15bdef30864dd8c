import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/kit/secret.ts';
import { createReceivers } from '../../src/notify/receivers.ts';
import { tracingOptions } from '../../src/telemetry/options.ts';
import { prepareSdk } from '../../src/telemetry/sdk.ts';
import { createTracer, disableTracing } from '../../src/telemetry/tracing.ts';
import { createPost } from '../../src/upstream/post.ts';
import { afterThisTest, createTestClient } from '../support/client.ts';
import { serve } from '../support/http-service.ts';
import { ofAttempt } from '../support/message-span.ts';
import { startOtlpReceiver } from '../support/otlp-receiver.ts';
import { createTestLog } from '../support/silent.ts';

const never = new AbortController().signal;

/** Starts the SDK with a trace receiver. `exported` returns all spans. */
async function start(env: Readonly<Record<string, string>> = {}, options: object = {}) {
  const receiver = await startOtlpReceiver();
  afterThisTest(() => receiver.close());
  const counted: Record<string, number> = {};
  const sdk = await prepareSdk({
    options: tracingOptions.parse({ endpoint: receiver.url, sampleRatio: 1, messages: true, ...options }),
    env,
    spans: {
      inc({ outcome }, by = 1) {
        counted[outcome] = (counted[outcome] ?? 0) + by;
      },
    },
    log: createTestLog(),
    instance: 'dw-1.example:10922',
  });
  sdk.start();
  afterThisTest(async () => disableTracing());
  const exported = async () => {
    await sdk.shutdown();
    return receiver.spans;
  };
  return { sdk, tracer: createTracer(), exported, counted };
}

const nothing = async () => undefined;

describe('resource and scope of the agent’s spans', () => {
  it('the service instance is the host and port of the agent, as in its metrics, and the schema URL matches the conventions', async () => {
    const { tracer, exported } = await start();
    await tracer.span('round', {}, nothing);
    const [span] = await exported();
    expect(span?.resource).toMatchObject({
      'service.name': 'delivery-watch',
      'service.version': expect.any(String),
      'service.instance.id': 'dw-1.example:10922',
    });
    const schema = 'https://opentelemetry.io/schemas/1.45.0';
    expect([span?.resourceSchema, span?.scopeSchema]).toEqual([schema, schema]);
  });

  it('OTEL_RESOURCE_ATTRIBUTES apply to the agent’s spans, and not to spans of messages', async () => {
    // The SDK reads the environment of the process.
    process.env.OTEL_RESOURCE_ATTRIBUTES = 'service.name=watcher,service.instance.id=one,team=a';
    afterThisTest(async () => void delete process.env.OTEL_RESOURCE_ATTRIBUTES);
    const { sdk, tracer, exported } = await start();
    await tracer.span('round', {}, nothing);
    sdk.sendMessageSpans([ofAttempt()], 0);
    const [own, ofMessage] = (await exported()).toSorted((a, b) => a.name.localeCompare(b.name)).toReversed();
    expect(own?.resource).toMatchObject({ 'service.name': 'watcher', 'service.instance.id': 'one', team: 'a' });
    expect(ofMessage?.resource).toEqual({ 'service.name': 'message-delivery', 'service.instance.id': 'production' });
  });

  it('spans of messages are exported if OTEL_TRACES_EXPORTER disables the agent’s spans', async () => {
    // The SDK reads the environment of the process.
    process.env.OTEL_TRACES_EXPORTER = 'none';
    afterThisTest(async () => void delete process.env.OTEL_TRACES_EXPORTER);
    const { sdk, tracer, exported } = await start({ OTEL_TRACES_EXPORTER: 'none' });
    await tracer.span('round', {}, nothing);
    sdk.sendMessageSpans([ofAttempt()], 0);
    expect((await exported()).map(({ name }) => name)).toEqual(['POST']);
  });
});

describe('attributes and errors', () => {
  it('the agent’s own attributes are in its namespace', async () => {
    const { tracer, exported } = await start();
    await tracer.span('round', { account: 'a', 'url.template': '/x' }, async span => span.set({ outcome: 'ok' }));
    expect((await exported())[0]?.attributes).toEqual({
      'delivery_watch.account': 'a',
      'delivery_watch.outcome': 'ok',
      'url.template': '/x',
    });
  });

  it('an error without a reason has the type _OTHER, and its text is not exported', async () => {
    const { tracer, exported } = await start();
    const failing = tracer.span('round', {}, () => Promise.reject(new Error('canary')));
    await expect(failing).rejects.toThrow('canary');
    const [span] = await exported();
    expect(span).toMatchObject({ isError: true, attributes: { 'error.type': '_OTHER' } });
    expect(JSON.stringify(span)).not.toContain('canary');
  });

  it('a request that the agent cancels has no error', async () => {
    const { tracer, exported } = await start();
    const controller = new AbortController();
    const service = await serve(() => controller.abort(new Error('stopped')));
    const { reader } = createTestClient(service.url, { tracer });
    await expect(reader.dlqPages({}, controller.signal).next()).rejects.toThrow('stopped');
    const [span] = await exported();
    expect(span).toMatchObject({ name: 'GET /v2/dlq', isError: false });
    expect(span?.attributes).toMatchObject({ 'delivery_watch.outcome': 'stopped' });
    expect(span?.attributes).not.toHaveProperty(['error.type']);
  });

  it('the span of a retried request has the number of earlier attempts and the HTTP version', async () => {
    const { tracer, exported } = await start();
    let requests = 0;
    const service = await serve((_request, response) => {
      requests += 1;
      response.writeHead(requests < 3 ? 503 : 200).end('{"messages":[]}');
    });
    const { reader } = createTestClient(service.url, { tracer });
    await reader.dlqPages({}, never).next();
    const spans = (await exported()).filter(({ kind }) => kind === 'client');
    expect(spans.map(({ attributes }) => attributes['http.request.resend_count'])).toEqual([undefined, 1, 2]);
    expect(spans.map(({ attributes }) => attributes['error.type'])).toEqual(['server', 'server', undefined]);
    expect(spans.map(({ attributes }) => attributes['network.protocol.version'])).toEqual(['1.1', '1.1', '1.1']);
  });

  it('a notification is an internal span without its URL', async () => {
    const { tracer, exported } = await start();
    const service = await serve((_request, response) => response.writeHead(503).end('canary'));
    const url = `${service.url}/canary`;
    const urls = [new Secret(url)];
    const notifiers = [{ name: 'ops', severity: 'info', match: {}, alertmanager: { urls } }];
    const client = createPost();
    afterThisTest(() => client.close());
    const config = { alerts: { notifiers, evaluateEvery: 1000 }, server: {} } as never;
    const { all } = createReceivers({ config, env: {}, clock: { now: () => 0 }, tracer, post: client.post });
    await all[0]?.send([{ status: 'firing', labels: { alertname: 'A' }, annotations: {}, startsAt: 0 }], never);
    const spans = await exported();
    const [notification] = spans;
    expect(spans.map(({ name, kind, isError }) => [name, kind, isError])).toEqual([['notify', 'internal', true]]);
    expect(notification?.attributes).toMatchObject({ 'delivery_watch.notifier': 'ops', 'delivery_watch.alerts': 1 });
    expect(JSON.stringify(spans)).not.toContain('canary');
  });
});

describe('queue', () => {
  it('spans for which the queue is full are dropped and counted, together with the spans that the collector lost', async () => {
    const { sdk, exported, counted } = await start({ OTEL_BSP_MAX_QUEUE_SIZE: '4', OTEL_BSP_SCHEDULE_DELAY: '60000' });
    const spans = Array.from({ length: 10 }, (_, index) => ofAttempt({ spanId: `${index}`.padStart(16, 'a') }));
    sdk.sendMessageSpans(spans, 3);
    const sent = (await exported()).length;
    expect(counted).toEqual({ exported: sent, dropped: 13 - sent });
    expect(sent).toBeGreaterThanOrEqual(4);
    expect(sent).toBeLessThan(10);
  });
});
