import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { createAgent } from '../support/agent.ts';
import { afterThisTest } from '../support/client.ts';
import { emulate } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { serve } from '../support/http-service.ts';
import { type OtlpReceiver, startOtlpReceiver } from '../support/otlp-receiver.ts';

const KEY = 'tenant-4711';
const HEADER = 'canary-header';

/** Starts an agent with tracing and debug logs. */
function startTraced(baseUrl: string, token: string, tracing: object, env: Readonly<Record<string, string>> = {}) {
  const agent = createAgent(
    {
      log: { level: 'debug' },
      accounts: [
        {
          name: 'a',
          baseUrl,
          token: { env: 'DELIVERY_TOKEN' },
          // A single concurrent request, so that rounds wait for each other.
          budget: { requestsPerSecond: 1000, burst: 1000, concurrency: 1, requestsPerDay: 10_000_000 },
        },
      ],
      collect: {
        flowControl: { every: '200ms', watch: [KEY], watchEvery: '200ms' },
        dlq: { every: '200ms' },
        events: { every: '200ms' },
      },
      tracing: { enabled: true, sampleRatio: 1, ...tracing },
    },
    { DELIVERY_TOKEN: token, OTEL_BSP_SCHEDULE_DELAY: '100', ...env },
  );
  return agent.launch();
}

async function receive(): Promise<OtlpReceiver> {
  const receiver = await startOtlpReceiver();
  afterThisTest(() => receiver.close());
  return receiver;
}

async function emulateWithKey() {
  const emulator = await emulate({ seed: 5 });
  emulator.state.setWaitlist(KEY, 3);
  return emulator;
}

async function spansCounted(url: string): Promise<Record<string, number>> {
  const text = await (await fetch(`${url}/metrics/agent`)).text();
  return Object.fromEntries(
    [...text.matchAll(/delivery_watch_spans_total\{outcome="(\w+)"\} (\d+)/g)].map(([, outcome, count]) => [
      outcome,
      Number(count),
    ]),
  );
}

/** Collector names by resource in the path, if they differ. */
const COLLECTOR_OF: Readonly<Record<string, string>> = {
  flowControl: 'flow_control',
  globalParallelism: 'flow_control',
  workflows: 'runs',
};

describe('agent spans', () => {
  it.each(['http/protobuf', 'http/json'])(
    'spans of a round and its requests form one trace, exported with %s',
    async protocol => {
      const [emulator, receiver] = [await emulateWithKey(), await receive()];
      const agent = startTraced(
        emulator.url,
        emulator.token,
        { endpoint: receiver.url, headers: { 'x-key': HEADER } },
        { OTEL_EXPORTER_OTLP_PROTOCOL: protocol, OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test' },
      );
      const ofRounds = ['collect dlq', 'collect events', 'collect flow_control'];
      await eventually(async () => {
        const names = new Set(receiver.spans.map(({ name }) => name));
        for (const name of [...ofRounds, 'GET /v2/dlq', 'GET /v2/flowControl/{flowControlKey}']) {
          expect(names).toContain(name);
        }
      });
      agent.kill('SIGTERM');
      expect(await agent.ended).toBe(0);

      expect(receiver.requests.every(({ path }) => path === '/v1/traces')).toBe(true);
      expect(receiver.requests.every(({ headers }) => headers['x-key'] === HEADER)).toBe(true);
      expect(receiver.requests[0]?.headers['content-type']).toBe(
        protocol === 'http/json' ? 'application/json' : 'application/x-protobuf',
      );
      const bySpanId = new Map(receiver.spans.map(span => [span.spanId, span]));
      for (const span of receiver.spans) {
        expect(span.traceId).toMatch(/^[0-9a-f]{32}$/);
        expect(span.resource).toMatchObject({
          'service.name': 'delivery-watch',
          'service.instance.id': '127.0.0.1:0',
          'deployment.environment.name': 'test',
        });
        expect(Object.keys(span.resource).filter(key => key.startsWith('process.'))).toEqual([]);
        if (span.attributes['delivery_watch.outcome'] === 'stopped') continue;
        if (span.kind === 'client') {
          const parent = bySpanId.get(span.parentSpanId);
          const [, resource = ''] = /^GET \/v2\/(\w+)/.exec(span.name) ?? [];
          expect(parent?.name).toBe(`collect ${COLLECTOR_OF[resource] ?? resource}`);
          expect(parent?.traceId).toBe(span.traceId);
          expect(span.attributes).toMatchObject({
            'http.request.method': 'GET',
            'server.address': '127.0.0.1',
            'server.port': Number(new URL(emulator.url).port),
            'url.full': expect.stringMatching(
              /^http:\/\/127\.0\.0\.1:\d+\/v2\/\w+(\/REDACTED|\/logs)?(\?\w+=REDACTED(&\w+=REDACTED)*)?$/,
            ),
            'http.response.status_code': 200,
            'delivery_watch.outcome': 'ok',
          });
        } else expect(span.parentSpanId).toBe('');
      }
      const rounds = receiver.spans.filter(({ kind }) => kind === 'internal');
      expect(new Set(rounds.map(({ traceId }) => traceId)).size).toBe(rounds.length);
      // Spans contain no token, header value, message content or key.
      const raw = receiver.raw();
      for (const secret of [emulator.token, HEADER, KEY, 'Bearer']) expect(raw.includes(secret), secret).toBe(false);
      // Log lines refer to their spans.
      const lines = agent
        .stderr()
        .split('\n')
        .filter(line => line.includes('"collected"'))
        .map(line => JSON.parse(line));
      expect(lines).not.toEqual([]);
      for (const { trace_id, span_id, collector } of lines) {
        expect(bySpanId.get(span_id)).toMatchObject({ traceId: trace_id, name: `collect ${collector}` });
      }
      expect(agent.stderr()).not.toContain(HEADER);
    },
  );

  it('spans are sampled and sent according to OpenTelemetry environment variables, which override the configuration', async () => {
    const [emulator, receiver, other] = [await emulateWithKey(), await receive(), await receive()];
    const agent = startTraced(
      emulator.url,
      emulator.token,
      { endpoint: other.url, sampleRatio: 0, headers: { 'x-key': HEADER } },
      {
        OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
        OTEL_EXPORTER_OTLP_HEADERS: 'x-tenant=theirs',
        OTEL_TRACES_SAMPLER: 'always_on',
        OTEL_SERVICE_NAME: 'watcher',
      },
    );
    await eventually(async () => expect(receiver.spans.length).toBeGreaterThan(5));
    expect(receiver.spans[0]?.resource['service.name']).toBe('watcher');
    expect(other.requests).toEqual([]);
    expect(receiver.requests[0]?.headers).toMatchObject({ 'x-tenant': 'theirs' });
    expect(JSON.stringify(receiver.requests)).not.toContain(HEADER);
    agent.kill('SIGTERM');
    expect(await agent.ended).toBe(0);
  });

  it('spans are not exported with sampleRatio 0, and not created with OTEL_SDK_DISABLED', async () => {
    const [emulator, receiver] = [await emulateWithKey(), await receive()];
    const unsampled = startTraced(emulator.url, emulator.token, { endpoint: receiver.url, sampleRatio: 0 });
    const disabled = startTraced(
      emulator.url,
      emulator.token,
      { endpoint: receiver.url },
      { OTEL_SDK_DISABLED: 'true' },
    );
    for (const agent of [unsampled, disabled]) {
      await agent.says(/"collected"(.|\n)*"collected"/);
      agent.kill('SIGTERM');
      expect(await agent.ended).toBe(0);
    }
    expect(unsampled.stderr()).toContain('"trace_flags":"00"');
    expect(disabled.stderr()).not.toContain('trace_id');
    expect(receiver.requests).toEqual([]);
  });

  it('failed spans have an error type from a fixed set and contain no text from the response', async () => {
    const receiver = await receive();
    const service = await serve((_request, response) => response.writeHead(403, { 'x-secret': HEADER }).end(HEADER));
    startTraced(service.url, 'token', { endpoint: receiver.url });
    await eventually(async () => {
      const failed = receiver.spans.filter(({ isError }) => isError);
      expect(failed.map(({ name }) => name)).toEqual(expect.arrayContaining(['collect dlq', 'GET /v2/dlq']));
      for (const { kind, attributes } of failed) {
        expect(attributes['error.type']).toBe('forbidden');
        if (kind === 'client') expect(attributes['http.response.status_code']).toBe(403);
      }
    });
    expect(receiver.raw().includes(HEADER)).toBe(false);
  });
});

describe('failing receivers', () => {
  it('a trace receiver that does not respond does not delay the shutdown of the agent', async () => {
    const [emulator, receiver] = [await emulateWithKey(), await receive()];
    receiver.answer('hang');
    const longTimeout = { OTEL_EXPORTER_OTLP_TIMEOUT: '600000' };
    const agent = startTraced(emulator.url, emulator.token, { endpoint: receiver.url, messages: true }, longTimeout);
    await eventually(() => expect(receiver.requests.length).toBeGreaterThan(0));
    agent.kill('SIGTERM');
    // Half of the request timeout.
    const late = sleep(300_000, 'too late', { ref: false });
    expect(await Promise.race([agent.ended, late])).toBe(0);
  });

  it.each([
    ['refuses', 403],
    ['fails', 503],
    ['hangs', 'hang'],
    ['is down', undefined],
  ] as const)(
    'a trace receiver that %s does not delay rounds, and failed or dropped spans are counted',
    async (_what, answer) => {
      const [emulator, receiver] = [await emulateWithKey(), await receive()];
      if (answer === undefined) await receiver.close();
      else receiver.answer(answer);
      const agent = startTraced(
        emulator.url,
        emulator.token,
        { endpoint: receiver.url },
        { OTEL_EXPORTER_OTLP_TIMEOUT: '300', OTEL_BSP_MAX_QUEUE_SIZE: '4', OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '4' },
      );
      const url = await agent.listensAt();
      await eventually(async () => {
        const counted = await spansCounted(url);
        expect(counted.failed).toBeGreaterThan(3);
        // If the receiver responds immediately, the queue may never be full.
        if (answer === 'hang') expect(counted.dropped).toBeGreaterThan(3);
        expect(counted.exported).toBe(0);
        const text = await (await fetch(`${url}/metrics`)).text();
        expect(text).toContain('delivery_up{account="a"} 1');
      });
      expect(agent.stderr().match(/the trace receiver does not accept spans/g)).toHaveLength(1);
      if (answer !== undefined) {
        receiver.answer(200);
        await agent.says(/the trace receiver accepts spans again/);
        await eventually(async () => expect((await spansCounted(url)).exported).toBeGreaterThan(0));
      }
      agent.kill('SIGTERM');
      expect(await agent.ended).toBe(0);
    },
  );
});
