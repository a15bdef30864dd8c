import { SpanKind, SpanStatusCode } from '@opentelemetry/api';
import type { ReadableSpan } from '@opentelemetry/sdk-trace';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { LifecycleTrace, TracedEvent } from '../../src/model/lifecycle-trace.ts';
import { EVENT_STATES } from '../../src/model/message.ts';
import { lifecycleSpans } from '../../src/telemetry/lifecycle-spans.ts';
import { runs } from '../support/runs.ts';

const T = 1_700_000_000_000;

const traceOf = (events: readonly TracedEvent[], more: Partial<LifecycleTrace> = {}): LifecycleTrace => ({
  traceId: '0af7651916cd43dd8448eb211c80319c',
  messageId: 'msg_1',
  events,
  host: 'api.example.com',
  origin: 'https://api.example.com',
  method: 'POST',
  hasFlowControlKey: false,
  lateEvents: 0,
  partial: [],
  ...more,
});

/** Parses events separated by spaces: `state@milliseconds`, with optional `=status` and `>due`. */
const eventsOf = (text: string): TracedEvent[] =>
  text.split(' ').map(each => {
    const [, state = '', at, status, due] = /^(\w+)@(\d+)(?:=(\d+))?(?:>(\d+))?$/.exec(each) ?? [];
    return {
      state: state as TracedEvent['state'],
      time: T + Number(at),
      dueAt: due === undefined ? 0 : T + Number(due),
      status: status === undefined ? undefined : Number(status),
    };
  });

const ms = ([seconds, nanos]: readonly [number, number]) => seconds * 1000 + nanos / 1e6;
const line = ({ name, startTime, endTime, status }: ReadableSpan) =>
  `${name} ${ms(startTime) - T}-${ms(endTime) - T}${status.code === SpanStatusCode.ERROR ? ' error' : ''}`;

const show = (text: string, more?: Partial<LifecycleTrace>) => {
  const spans = lifecycleSpans(traceOf(eventsOf(text), more));
  return { lines: spans.map(line), root: spans[0] as ReadableSpan, spans };
};

describe('message traces', () => {
  it('the trace of a message has a root span, a wait and one attempt if the first attempt delivered the message', () => {
    const { lines, root, spans } = show('created@0 active@20 delivered@150=200');
    expect(lines).toEqual(['deliver api.example.com 0-150', 'wait 0-20', 'POST 20-150']);
    expect(spans.map(({ kind }) => kind)).toEqual([SpanKind.INTERNAL, SpanKind.INTERNAL, SpanKind.CLIENT]);
    expect(root.attributes).toEqual({
      'messaging.system': 'message_delivery',
      'messaging.operation.name': 'deliver',
      'messaging.message.id': 'msg_1',
      'messaging.destination.name': 'api.example.com',
      'server.address': 'api.example.com',
      'delivery.outcome': 'delivered',
      'delivery.attempts': 1,
    });
    expect(spans[2]?.attributes).toEqual({
      'http.request.method': 'POST',
      'server.address': 'api.example.com',
      'server.port': 443,
      'url.full': 'https://api.example.com/REDACTED',
      'http.response.status_code': 200,
    });
    expect(root.status.code).toBe(SpanStatusCode.UNSET);
  });

  it('the trace of a message has a backoff between attempts and an error status if it was retried and dead-lettered', () => {
    const { lines, root, spans } = show(
      'created@0 active@10 error@50=500 retry@50>1050 active@1100 error@1200=0 failed@1200',
      { queue: 'emails' },
    );
    expect(lines).toEqual([
      'deliver emails 0-1200 error',
      'wait 0-10',
      'POST 10-50 error',
      'POST 1100-1200 error',
      'backoff 50-1100',
    ]);
    expect(root.attributes['error.type']).toBe('no_answer');
    expect(root.events).toEqual([{ name: 'dead_lettered', time: [(T + 1200) / 1000 - 0.2, 200_000_000] }]);
    expect(spans[2]?.attributes['error.type']).toBe('500');
    expect(spans[3]?.attributes['http.request.resend_count']).toBe(1);
    expect(spans[4]?.attributes).toEqual({ 'delivery.planned_seconds': 1 });
  });

  it('the trace of a message has no attempt if the message was cancelled before its due time', () => {
    const { lines, root, spans } = show('created@0>900 cancel_requested@100 cancelled@900');
    expect(lines).toEqual(['deliver api.example.com 0-900', 'wait 0-900']);
    expect(root.events.map(({ name }) => name)).toEqual(['cancel.requested', 'cancelled']);
    expect(root.status.code).toBe(SpanStatusCode.UNSET);
    expect(spans[1]?.attributes).toEqual({ 'delivery.wait.reason': 'delay' });
  });

  it.each([
    ['active@10 delivered@20', ['no_start']],
    ['created@0 delivered@20', ['missing_events']],
    ['created@0 active@10 active@30 delivered@40', ['missing_events']],
    ['created@0 active@10 error@20', ['no_end']],
  ])('the trace of a message is marked as partial if the log lacks events: %s', (events, reasons) => {
    const { root } = show(events);
    expect(root.attributes).toMatchObject({
      'delivery.trace.partial': true,
      'delivery.trace.partial_reasons': reasons,
    });
  });

  it('the trace of a message ignores events after the first final event', () => {
    const { lines, root } = show('created@0 active@10 delivered@20=200 active@30 error@40=500 failed@50');
    expect(lines).toEqual(['deliver api.example.com 0-20', 'wait 0-10', 'POST 10-20']);
    expect(root.attributes['delivery.outcome']).toBe('delivered');
  });

  it('the trace of a message is linked to the span that published the message', () => {
    const { root } = show('created@0 active@1 delivered@2', {
      traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
    });
    expect(root.links.map(({ context }) => context)).toEqual([
      { traceId: '4bf92f3577b34da6a3ce929d0e0e4736', spanId: '00f067aa0ba902b7', traceFlags: 1, isRemote: true },
    ]);
  });

  it('the trace of a message is limited to 64 attempts and marked as partial if there were more', () => {
    const events = Array.from({ length: 80 }, (_, turn) => `active@${turn * 10} error@${turn * 10 + 5}=500`);
    const { spans, root } = show(`created@0 ${events.join(' ')} failed@900`);
    expect(spans.filter(({ name }) => name === 'POST')).toHaveLength(64);
    expect(root.attributes['delivery.attempts']).toBe(80);
    expect(root.attributes['delivery.trace.partial_reasons']).toEqual(['too_many_attempts']);
    expect(new Set(spans.map(span => span.spanContext().spanId)).size).toBe(spans.length);
  });
});

describe('traces from arbitrary events', () => {
  const event = fc.record({
    state: fc.constantFrom(...EVENT_STATES),
    time: fc.oneof(fc.integer({ min: T, max: T + 50 }), fc.integer({ min: 0, max: 8.64e15 })),
    dueAt: fc.integer({ min: 0, max: 8.64e15 }),
    status: fc.option(fc.integer({ min: 0, max: 599 }), { nil: undefined }),
  });

  it('a trace of arbitrary events has one root span that contains all others, and no span with a negative duration', () => {
    fc.assert(
      fc.property(fc.array(event, { minLength: 1, maxLength: 60 }), fc.boolean(), (events, hasQueue) => {
        const spans = lifecycleSpans(traceOf(events, hasQueue ? { queue: 'q' } : {}));
        const roots = spans.filter(({ parentSpanContext }) => parentSpanContext === undefined);
        expect(roots).toHaveLength(1);
        const [root] = roots as [ReadableSpan];
        const ids = spans.map(span => span.spanContext().spanId);
        expect(new Set(ids).size).toBe(ids.length);
        for (const span of spans) {
          const { traceId, spanId } = span.spanContext();
          expect(traceId).toBe(root.spanContext().traceId);
          expect(spanId).toMatch(/^(?!0{16})[0-9a-f]{16}$/);
          if (span !== root) expect(span.parentSpanContext?.spanId).toBe(root.spanContext().spanId);
          expect(ms(span.startTime)).toBeGreaterThanOrEqual(ms(root.startTime));
          expect(ms(span.endTime)).toBeLessThanOrEqual(ms(root.endTime));
          expect(ms(span.endTime)).toBeGreaterThanOrEqual(ms(span.startTime));
          for (const { time } of span.events) {
            expect(ms(time)).toBeGreaterThanOrEqual(ms(root.startTime));
            expect(ms(time)).toBeLessThanOrEqual(ms(root.endTime));
          }
        }
      }),
      { numRuns: runs(1000) },
    );
  });

  it('a trace of arbitrary events is the same, including its ids, if events are reordered or repeated', () => {
    const spansOf = (events: readonly TracedEvent[]) =>
      lifecycleSpans(traceOf(events)).map(span => [
        span.spanContext().spanId,
        line(span),
        span.attributes,
        span.events,
      ]);
    // Rows with the same state and time are the same event, regardless of their other fields.
    const distinct = fc.uniqueArray(event, { minLength: 1, maxLength: 30, selector: e => `${e.state} ${e.time}` });
    const shuffled = distinct.chain(events =>
      fc.tuple(fc.constant(events), fc.shuffledSubarray(events, { minLength: events.length }), fc.subarray(events)),
    );
    fc.assert(
      fc.property(shuffled, ([events, again, twice]) => {
        expect(spansOf([...again, ...twice])).toEqual(spansOf(events));
      }),
      { numRuns: runs(500) },
    );
  });
});
