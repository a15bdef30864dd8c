import { gunzipSync } from 'node:zlib';
import { BinaryWriter } from '@bufbuild/protobuf/wire';
import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/kit/secret.ts';
import { createQueue } from '../../src/push/queue.ts';
import { createSender, type PostBytes, rejectedItems } from '../../src/push/sender.ts';
import { targetOf } from '../../src/push/target.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { createTestLog } from '../support/silent.ts';

type Reply = Awaited<ReturnType<PostBytes>> | Error;

function scene(...replies: Reply[]) {
  const clock = createManualClock();
  const sent: Parameters<PostBytes>[] = [];
  const counts: Record<string, number> = {};
  const counter = (name: string) => ({
    inc: ({ outcome }: { outcome: string }, by = 1) => {
      counts[`${name} ${outcome}`] = (counts[`${name} ${outcome}`] ?? 0) + by;
    },
  });
  const log = createTestLog();
  const sender = createSender({
    target: { url: 'http://h/SECRET-PATH/v1/metrics', headers: { key: 'SECRET' }, isGzipped: true, timeout: 1000 },
    async post(...request) {
      sent.push(request);
      const reply = replies.shift() ?? { status: 200, text: '' };
      if (reply instanceof Error) throw reply;
      return reply;
    },
    counters: { requests: counter('requests'), items: counter('items') },
    clock,
    random: () => 1,
    log,
  });
  return { clock, sent, lines: log.lines, counts, sender };
}

const packet = (text = 'body', items = 3) => ({ body: Buffer.from(text), items });
const partial = (rejected: number) => {
  const writer = new BinaryWriter();
  writer.tag(1, 2).fork().tag(1, 0).int64(rejected).tag(2, 2).string('too old').join();
  return Buffer.from(writer.finish()).toString('latin1');
};
const never = new AbortController().signal;

describe('push requests', () => {
  it('a push request contains compressed protobuf and the configured headers', async () => {
    const { sender, sent, counts, lines } = scene();
    expect(await sender.send(await sender.compress(packet()), never)).toBe('accepted');
    expect(sent[0]?.[0]).toBe('http://h/SECRET-PATH/v1/metrics');
    expect(sent[0]?.[1].headers).toEqual({
      key: 'SECRET',
      'content-type': 'application/x-protobuf',
      'content-encoding': 'gzip',
    });
    expect(gunzipSync(sent[0]?.[1].body as Uint8Array).toString()).toBe('body');
    expect(counts).toEqual({ 'requests accepted': 1, 'items exported': 3 });
    expect(lines).toEqual([]);
  });

  it.each([429, 502, 503, 504])(
    'a push request is retried after status %i, but not before Retry-After has passed',
    async status => {
      const { clock, sender, counts } = scene({ status, retryAfter: '7', text: '' });
      expect(await sender.send(packet(), never)).toBe('failed');
      expect(counts).toEqual({ 'requests failed': 1 });
      await clock.advance(6999);
      expect(sender.isDue()).toBe(false);
      await clock.advance(1);
      expect(sender.isDue()).toBe(true);
    },
  );

  it.each([400, 401, 404, 500])('a push request is not retried after status %i', async status => {
    const { sender, counts } = scene({ status, text: 'no' });
    expect(await sender.send(packet(), never)).toBe('refused');
    expect(counts).toEqual({ 'requests refused': 1, 'items rejected': 3 });
    expect(sender.isDue()).toBe(false);
  });

  it('rejected items of a partial success are counted', async () => {
    const { sender, counts } = scene({ status: 200, text: partial(2) });
    await sender.send(packet(), never);
    expect(counts).toMatchObject({ 'items exported': 1, 'items rejected': 2 });
    expect(sender.trouble()).toMatchObject({ reason: 'partial success' });
    expect(rejectedItems(Buffer.from(partial(0), 'latin1'))).toBe(0);
    expect(rejectedItems(Buffer.from('<html>'))).toBe(0);
  });

  it('a failing receiver and its recovery are logged once each, without secrets', async () => {
    const refused = Object.assign(new Error('connect SECRET-PATH'), { code: 'ECONNREFUSED' });
    const { sender, lines, clock } = scene(refused, { status: 503, text: 'SECRET' }, { status: 200, text: '' });
    await sender.send(packet(), never);
    await clock.advance(60_000);
    await sender.send(packet(), never);
    expect(sender.trouble()).toEqual({ since: clock.now() - 60_000, reason: 'status 503' });
    await sender.send(packet(), never);
    expect(lines).toEqual([
      {
        level: 'warn',
        fields: { reason: 'ECONNREFUSED' },
        message: 'the OTLP receiver does not accept metrics',
      },
      { level: 'info', fields: {}, message: 'the OTLP receiver accepts metrics again' },
    ]);
    expect(sender.trouble()).toBeUndefined();
  });
});

describe('queue', () => {
  it('the queue keeps a failed request for a retry and drops the oldest requests when it is full', async () => {
    const { sender, sent, clock } = scene({ status: 503, text: '' });
    const dropped: number[] = [];
    const queue = createQueue({ maxBytes: 10, dropped: items => void dropped.push(items) });
    queue.add(packet('aaaa', 1));
    await queue.drain(sender, never);
    expect(sent).toHaveLength(1);
    queue.add(packet('bbbb', 2));
    queue.add(packet('cccc', 3));
    queue.add(packet('d'.repeat(11), 4));
    expect(dropped).toEqual([1, 2, 3, 4]);
    queue.add(packet('eeee', 5));
    await clock.advance(60_000);
    await queue.drain(sender, never);
    expect(sent.slice(1).map(([, { body }]) => Buffer.from(body).toString())).toEqual(['eeee']);
    expect(queue.bytes).toBe(0);
  });
});

describe('push targets', () => {
  const options = { endpoint: 'http://here:4318/', headers: { 'X-Key': new Secret('mine') } };

  it('the push target is read from the configuration', () => {
    expect(targetOf(options, {})).toEqual({
      url: 'http://here:4318/v1/metrics',
      headers: { 'x-key': 'mine' },
      isGzipped: true,
      timeout: 10_000,
    });
  });

  it('the push target is overridden by environment variables; metrics-specific variables take precedence', () => {
    const env = {
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://there:4318',
      OTEL_EXPORTER_OTLP_HEADERS: 'x-key=theirs,x-tenant=a%20b, bad',
      OTEL_EXPORTER_OTLP_TIMEOUT: '500',
      OTEL_EXPORTER_OTLP_COMPRESSION: 'none',
    };
    expect(targetOf(options, env)).toEqual({
      url: 'http://there:4318/v1/metrics',
      headers: { 'x-key': 'theirs', 'x-tenant': 'a b' },
      isGzipped: false,
      timeout: 500,
    });
    const own = {
      ...env,
      OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: 'http://own/in',
      OTEL_EXPORTER_OTLP_METRICS_TIMEOUT: '7',
    };
    expect(targetOf(options, own)).toMatchObject({ url: 'http://own/in', timeout: 7 });
  });

  it.each([
    ['no endpoint', {}, { 'x-key': 'mine', 'x-more': 'theirs' }],
    [
      'the configured endpoint',
      { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://here:4318' },
      { 'x-key': 'mine', 'x-more': 'theirs' },
    ],
    [
      'the configured endpoint of the signal',
      { OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: 'http://here:4318/v1/metrics' },
      { 'x-key': 'mine', 'x-more': 'theirs' },
    ],
    ['another endpoint', { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://there' }, { 'x-key': 'theirs', 'x-more': 'theirs' }],
    [
      'another endpoint of the signal',
      { OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: 'http://there' },
      { 'x-key': 'theirs', 'x-more': 'theirs' },
    ],
  ])('configured headers are sent only to the configured endpoint (the environment sets %s)', (_what, env, headers) => {
    const all = { OTEL_EXPORTER_OTLP_HEADERS: 'x-key=theirs,x-more=theirs', ...env };
    expect(targetOf(options, all).headers).toEqual(headers);
  });

  it('a push target with an unsupported protocol is rejected', () => {
    expect(() => targetOf(options, { OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' })).toThrow(
      'OTEL_EXPORTER_OTLP_PROTOCOL is grpc; metrics are sent by http/protobuf only',
    );
  });
});
