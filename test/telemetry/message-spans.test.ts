import { SpanKind, SpanStatusCode } from '@opentelemetry/api';
import { describe, expect, it } from 'vitest';
import type { MessageSpan, TracedMessage } from '../../src/model/message-span.ts';
import { toReadableSpan } from '../../src/telemetry/message-spans.ts';
import { ofAttempt, PUBLISHER } from '../support/message-span.ts';

const attempt = (span?: Partial<MessageSpan>, message?: Partial<TracedMessage>) =>
  toReadableSpan(ofAttempt(span, message));

const delivery = (span?: Partial<MessageSpan>, message?: Partial<TracedMessage>) =>
  attempt({ kind: 'delivery', spanId: 'd'.repeat(16), ...span }, message);

const SCHEMA = 'https://opentelemetry.io/schemas/1.45.0';

describe('delivery spans', () => {
  it('a delivery span is a child of the publisher’s span, with the attributes of messaging', () => {
    const span = delivery({ attempts: 3 }, { topic: 'orders', queue: 'q' });
    expect(span.name).toBe('deliver orders');
    expect(span.kind).toBe(SpanKind.INTERNAL);
    expect(span.spanContext()).toEqual({ traceId: PUBLISHER.traceId, spanId: 'd'.repeat(16), traceFlags: 1 });
    expect(span.parentSpanContext).toMatchObject(PUBLISHER);
    expect(span.links).toEqual([]);
    expect([span.startTime, span.endTime, span.duration]).toEqual([
      [1_700_000_000, 10_000_000],
      [1_700_000_000, 50_000_000],
      [0, 40_000_000],
    ]);
    expect(span.status.code).toBe(SpanStatusCode.UNSET);
    expect(span.attributes).toEqual({
      'messaging.system': 'message_delivery',
      'messaging.operation.name': 'deliver',
      'messaging.message.id': 'msg_1',
      'messaging.destination.name': 'orders',
      'messaging.message_delivery.queue': 'q',
      'messaging.message_delivery.outcome': 'delivered',
      'messaging.message_delivery.attempts': 3,
      'server.address': 'delivery.example.com',
      'server.port': 443,
    });
  });

  it('the destination name of a delivery span is the destination’s host if the message has neither topic nor queue', () => {
    expect(delivery().attributes['messaging.destination.name']).toBe('api.example.org');
    expect(delivery({}, { queue: 'q' }).name).toBe('deliver q');
    expect(delivery({}, { origin: undefined }).name).toBe('deliver');
  });

  it('a delivery span of a schedule’s message is the root of its trace and linked to the publisher’s span', () => {
    const own = { schedule: 'nightly', traceId: 'e'.repeat(32) };
    const span = delivery({}, own);
    expect(span.parentSpanContext).toBeUndefined();
    expect(span.spanContext().traceId).toBe(own.traceId);
    expect(span.links.map(({ context }) => context)).toMatchObject([{ ...PUBLISHER, traceFlags: 1 }]);
    expect(span.attributes['messaging.message_delivery.schedule']).toBe('nightly');
    expect(attempt({}, own).links).toEqual([]);
    expect(attempt({}, own).parentSpanContext).toMatchObject({ traceId: own.traceId, spanId: 'd'.repeat(16) });
  });

  it('a span is marked as partial only if the log lacks events', () => {
    expect(delivery({ isPartial: true }).attributes['messaging.message_delivery.partial']).toBe(true);
    expect(delivery().attributes).not.toHaveProperty(['messaging.message_delivery.partial']);
  });

  it('the resource names the service, has an instance per account, and has the schema URL of the conventions', () => {
    const { resource, instrumentationScope } = delivery();
    expect(resource.attributes).toEqual({ 'service.name': 'message-delivery', 'service.instance.id': 'production' });
    expect(resource.schemaUrl).toBe(SCHEMA);
    expect(instrumentationScope).toMatchObject({ name: 'delivery-watch', schemaUrl: SCHEMA });
  });
});

describe('attempt spans', () => {
  it('an attempt span is a client span of the delivery, with the attributes of HTTP', () => {
    const span = attempt();
    expect([span.name, span.kind]).toEqual(['POST', SpanKind.CLIENT]);
    expect(span.parentSpanContext).toMatchObject({ traceId: PUBLISHER.traceId, spanId: 'd'.repeat(16) });
    expect(span.attributes).toEqual({
      'http.request.method': 'POST',
      'http.response.status_code': 200,
      'server.address': 'api.example.org',
      'server.port': 8443,
      'url.full': 'https://api.example.org:8443/REDACTED',
    });
  });

  it.each([
    [{ result: 'error', status: 503, attempts: 2 }, '503', 503],
    [{ result: 'error', status: 0, attempts: 2 }, 'no_answer', undefined],
    [{ result: 'failed', status: undefined, attempts: 2 }, '_OTHER', undefined],
  ] as const)('a failed attempt has an error type and the number of earlier attempts: %j', (ended, type, status) => {
    const { attributes, status: outcome } = attempt(ended);
    expect(outcome.code).toBe(SpanStatusCode.ERROR);
    expect(attributes).toMatchObject({ 'error.type': type, 'http.request.resend_count': 1 });
    expect(attributes['http.response.status_code']).toBe(status);
  });

  it('an attempt of a cancelled message has no error', () => {
    const { attributes, status } = attempt({ result: 'cancelled', status: undefined });
    expect(status.code).toBe(SpanStatusCode.UNSET);
    expect(attributes).not.toHaveProperty(['error.type']);
  });

  it('a method that HTTP does not define is not exported', () => {
    const span = attempt({}, { method: 'canary' });
    expect([span.name, span.attributes['http.request.method']]).toEqual(['HTTP', '_OTHER']);
  });
});
