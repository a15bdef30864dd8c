import { type Attributes, type HrTime, type Link, SpanKind, SpanStatusCode, TraceFlags } from '@opentelemetry/api';
import { resourceFromAttributes } from '@opentelemetry/resources';
import type { ReadableSpan } from '@opentelemetry/sdk-trace';
import { hashedId } from '../kit/hash.ts';
import { serverAttributes } from '../kit/server-attributes.ts';
import { version } from '../kit/version.ts';
import type { LifecycleTrace, TracedEvent } from '../model/lifecycle-trace.ts';
import { EVENT_SEQUENCE, isEnd } from '../model/message.ts';

const MAX_ATTEMPTS = 64;

/** Attribute names of OpenTelemetry's semantic conventions 1.44. The messaging conventions are still in development. */
const ATTRIBUTES = {
  system: 'messaging.system',
  operation: 'messaging.operation.name',
  messageId: 'messaging.message.id',
  destination: 'messaging.destination.name',
  server: 'server.address',
  method: 'http.request.method',
  status: 'http.response.status_code',
  resend: 'http.request.resend_count',
  error: 'error.type',
} as const;

const RESOURCE = resourceFromAttributes({ 'service.name': 'message-delivery', 'telemetry.source': 'event-log' });

interface Part {
  readonly kind: 'deliver' | 'wait' | 'attempt' | 'backoff';
  readonly ordinal: number;
  readonly name: string;
  readonly spanKind: SpanKind;
  /** Start and end (ms since the Unix epoch). */
  readonly start: number;
  readonly end: number;
  readonly attributes: Attributes;
  readonly error?: string | undefined;
  readonly links?: Link[];
  readonly events?: readonly { readonly name: string; readonly time: number }[];
}

const hrTime = (ms: number): HrTime => [Math.floor(ms / 1000), Math.round((ms % 1000) * 1e6)];

/** A delivery attempt, reconstructed from the event log. */
interface Attempt {
  readonly start: number;
  end: number | undefined;
  result: 'error' | 'success' | 'cancelled' | undefined;
  status: number | undefined;
  /** Whether the log contains only the start or the end, which makes the duration 0. */
  isEstimated: boolean;
}

/** Sorts the events, removes duplicates and drops events after the first final one. */
function lifeOf(events: readonly TracedEvent[]): TracedEvent[] {
  const seen = new Set<string>();
  const sorted = events
    .toSorted((a, b) => a.time - b.time || EVENT_SEQUENCE.indexOf(a.state) - EVENT_SEQUENCE.indexOf(b.state))
    .filter(({ state, time }) => {
      const key = `${state} ${time}`;
      return !seen.has(key) && seen.add(key);
    });
  const end = sorted.findIndex(({ state }) => isEnd(state));
  return end < 0 ? sorted : sorted.slice(0, end + 1);
}

function attemptsOf(life: readonly TracedEvent[]): Attempt[] {
  const attempts: Attempt[] = [];
  const last = () => attempts.at(-1);
  const close = (time: number, result: NonNullable<Attempt['result']>, status: number | undefined) => {
    const attempt = last();
    if (attempt && attempt.end === undefined) Object.assign(attempt, { end: time, result, status });
    else attempts.push({ start: time, end: time, result, status, isEstimated: true });
  };
  for (const { state, time, status } of life) {
    const isOpen = last() !== undefined && last()?.end === undefined;
    if (state === 'active') {
      // The log lacks the end of the previous attempt.
      const before = last();
      if (before && isOpen) Object.assign(before, { end: before.start, isEstimated: true });
      attempts.push({ start: time, end: undefined, result: undefined, status: undefined, isEstimated: false });
    } else if (state === 'error') close(time, 'error', status);
    else if (state === 'delivered') close(time, 'success', status);
    else if (state === 'failed' && isOpen) close(time, 'error', status);
    else if (state === 'cancelled' && isOpen) close(time, 'cancelled', undefined);
  }
  for (const attempt of attempts) {
    if (attempt.end === undefined) Object.assign(attempt, { end: attempt.start, isEstimated: true });
  }
  return attempts;
}

const errorType = (status: number | undefined) => (status ? String(status) : 'no_answer');

const defined = (attributes: Attributes): Attributes =>
  Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined));

function attemptParts(trace: LifecycleTrace, attempts: readonly Attempt[]): Part[] {
  return attempts.map(({ start, end = start, result, status, isEstimated }, ordinal) => ({
    kind: 'attempt',
    ordinal,
    name: trace.method ?? 'HTTP',
    spanKind: SpanKind.CLIENT,
    start,
    end,
    attributes: defined({
      [ATTRIBUTES.method]: trace.method,
      [ATTRIBUTES.server]: trace.host,
      ...(URL.canParse(trace.origin ?? '') ? serverAttributes(trace.origin ?? '', '/{path}') : {}),
      [ATTRIBUTES.status]: status || undefined,
      [ATTRIBUTES.resend]: ordinal > 0 ? ordinal : undefined,
      'delivery.time.estimated': isEstimated || undefined,
    }),
    error: result === 'error' ? errorType(status) : undefined,
  }));
}

/** Returns a backoff span from each failed attempt to the next attempt, or to the last event. */
function backoffParts(life: readonly TracedEvent[], attempts: readonly Attempt[], end: number): Part[] {
  return attempts.flatMap(({ end: from, result }, ordinal): Part[] => {
    const next = attempts[ordinal + 1];
    const to = next?.start ?? end;
    if (from === undefined || result !== 'error' || (!next && to === from)) return [];
    const retry = life.find(({ state, time }) => state === 'retry' && time >= from && time <= to);
    return [
      {
        kind: 'backoff',
        ordinal,
        name: 'backoff',
        spanKind: SpanKind.INTERNAL,
        start: from,
        end: to,
        attributes: defined({
          'delivery.planned_seconds': retry && retry.dueAt > from ? (retry.dueAt - from) / 1000 : undefined,
        }),
      },
    ];
  });
}

function waitPart(trace: LifecycleTrace, life: readonly TracedEvent[], firstAttempt: number | undefined, end: number) {
  const created = life.find(({ state }) => state === 'created');
  if (!created) return [];
  const isDelayed = created.dueAt > created.time;
  const cause = trace.hasFlowControlKey ? 'flow_control' : trace.queue === undefined ? 'unknown' : 'queue';
  const part: Part = {
    kind: 'wait',
    ordinal: 0,
    name: 'wait',
    spanKind: SpanKind.INTERNAL,
    start: created.time,
    end: Math.max(created.time, firstAttempt ?? end),
    attributes: { 'delivery.wait.reason': isDelayed ? 'delay' : cause },
  };
  return [part];
}

function linksOf(traceparent: string | undefined): Link[] {
  const [, traceId, spanId, flags] = traceparent?.split('-') ?? [];
  if (traceId === undefined || spanId === undefined) return [];
  const traceFlags = Number.parseInt(flags ?? '0', 16) & TraceFlags.SAMPLED;
  return [{ context: { traceId, spanId, traceFlags, isRemote: true }, attributes: {} }];
}

const MARKS: Readonly<Partial<Record<TracedEvent['state'], string>>> = {
  cancel_requested: 'cancel.requested',
  cancelled: 'cancelled',
  failed: 'dead_lettered',
  unknown: 'unknown_state',
};

function partsOf(trace: LifecycleTrace): Part[] {
  const life = lifeOf(trace.events);
  const [first, last] = [life[0], life.at(-1)];
  if (!first || !last) return [];
  const all = attemptsOf(life);
  const attempts = all.slice(0, MAX_ATTEMPTS);
  const outcome = isEnd(last.state) ? last.state : undefined;
  const destination = trace.topic ?? trace.queue ?? trace.host;
  const partial = [
    ...trace.partial,
    ...(first.state === 'created' ? [] : ['no_start']),
    ...(outcome === undefined && !trace.partial.includes('no_end') ? ['no_end'] : []),
    ...(all.length > attempts.length ? ['too_many_attempts'] : []),
    ...(all.some(({ isEstimated }) => isEstimated) ? ['missing_events'] : []),
  ];
  const root: Part = {
    kind: 'deliver',
    ordinal: 0,
    name: destination === undefined ? 'deliver' : `deliver ${destination}`,
    // No operation type fits: the publisher's `send` ended when the service accepted the message, and `process` belongs to the
    // destination. With PRODUCER, trace receivers would wait for a consumer's span.
    spanKind: SpanKind.INTERNAL,
    start: first.time,
    end: last.time,
    attributes: defined({
      [ATTRIBUTES.system]: 'message_delivery',
      [ATTRIBUTES.operation]: 'deliver',
      [ATTRIBUTES.messageId]: trace.messageId,
      [ATTRIBUTES.destination]: destination,
      [ATTRIBUTES.server]: trace.host,
      'delivery.queue': trace.queue,
      'delivery.schedule': trace.schedule,
      'delivery.outcome': outcome ?? 'open',
      'delivery.attempts': all.length,
      'delivery.trace.partial': partial.length > 0 || undefined,
      'delivery.trace.partial_reasons': partial.length > 0 ? partial : undefined,
      'delivery.trace.late_events': trace.lateEvents || undefined,
    }),
    error: last.state === 'failed' ? errorType(last.status ?? all.at(-1)?.status) : undefined,
    links: linksOf(trace.traceparent),
    events: life.flatMap(({ state, time }) => (MARKS[state] === undefined ? [] : [{ name: MARKS[state], time }])),
  };
  return [
    root,
    ...waitPart(trace, life, attempts[0]?.start, last.time),
    ...attemptParts(trace, attempts),
    ...backoffParts(life, attempts, all[attempts.length]?.start ?? last.time),
  ];
}

export const countSpans = (trace: LifecycleTrace): number => partsOf(trace).length;

/**
 * Converts a message's lifecycle to spans: a root, the wait for the first attempt, at most `MAX_ATTEMPTS` attempts, and the backoff
 * after each failed one. A repeated export has the same span ids.
 */
export function lifecycleSpans(trace: LifecycleTrace): ReadableSpan[] {
  const contextOf = (kind: Part['kind'], ordinal: number) => ({
    traceId: trace.traceId,
    spanId: hashedId([trace.traceId, kind, ordinal], 16),
    traceFlags: TraceFlags.SAMPLED,
  });
  return partsOf(trace).map(part => {
    const context = contextOf(part.kind, part.ordinal);
    const failed = part.error === undefined ? {} : { [ATTRIBUTES.error]: part.error };
    return {
      name: part.name,
      kind: part.spanKind,
      spanContext: () => context,
      ...(part.kind === 'deliver' ? {} : { parentSpanContext: contextOf('deliver', 0) }),
      startTime: hrTime(part.start),
      endTime: hrTime(part.end),
      duration: hrTime(part.end - part.start),
      status: { code: part.error === undefined ? SpanStatusCode.UNSET : SpanStatusCode.ERROR },
      attributes: { ...part.attributes, ...failed },
      links: part.links ?? [],
      events: (part.events ?? []).map(({ name, time }) => ({ name, time: hrTime(time) })),
      ended: true,
      resource: RESOURCE,
      instrumentationScope: { name: 'delivery-watch', version },
      droppedAttributesCount: 0,
      droppedEventsCount: 0,
      droppedLinksCount: 0,
    };
  });
}
