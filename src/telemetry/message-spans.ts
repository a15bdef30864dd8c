import { type Attributes, type HrTime, type Link, SpanKind, SpanStatusCode, TraceFlags } from '@opentelemetry/api';
import { type Resource, resourceFromAttributes } from '@opentelemetry/resources';
import type { ReadableSpan } from '@opentelemetry/sdk-trace';
import { BoundedMap } from '../kit/bounded-map.ts';
import { serverAttributes } from '../kit/server-attributes.ts';
import { version } from '../kit/version.ts';
import type { MessageSpan, TracedMessage } from '../model/message-span.ts';
import { SCHEMA_URL } from './tracing.ts';

/** Value of `messaging.system`, and the namespace of attributes for which there is no convention. */
const SYSTEM = 'message_delivery';
const OWN = `messaging.${SYSTEM}`;

/** Methods that the conventions know. */
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'CONNECT', 'OPTIONS', 'TRACE', 'PATCH', 'QUERY'];

const hrTime = (ms: number): HrTime => [Math.floor(ms / 1000), Math.round((ms % 1000) * 1e6)];

/** Resources of the spans, by account: the service, not the agent. */
const resources = new BoundedMap<string, Resource>(1000);

function resourceOf({ account }: TracedMessage): Resource {
  const attributes = { 'service.name': 'message-delivery', 'service.instance.id': account };
  const resource = resources.get(account) ?? resourceFromAttributes(attributes, { schemaUrl: SCHEMA_URL });
  resources.set(account, resource);
  return resource;
}

function deliveryOf({ message, result, attempts }: MessageSpan) {
  const { baseUrl, messageId, origin, topic, queue, schedule } = message;
  const destination = topic ?? queue ?? (origin === undefined ? undefined : new URL(origin).hostname);
  const { 'server.address': address, 'server.port': port } = serverAttributes(baseUrl, '');
  return {
    name: destination === undefined ? 'deliver' : `deliver ${destination}`,
    // No operation type fits: the publisher's `send` ended when the service accepted the message, and `process` belongs to the
    // destination. With PRODUCER, trace receivers would wait for a consumer's span.
    kind: SpanKind.INTERNAL,
    attributes: {
      'messaging.system': SYSTEM,
      'messaging.operation.name': 'deliver',
      'messaging.message.id': messageId,
      'messaging.destination.name': destination,
      'server.address': address,
      'server.port': port,
      [`${OWN}.queue`]: queue,
      [`${OWN}.schedule`]: schedule,
      [`${OWN}.outcome`]: result,
      [`${OWN}.attempts`]: attempts,
    },
  };
}

function attemptOf({ message: { origin, method = '' }, status, attempts }: MessageSpan) {
  const isKnown = METHODS.includes(method);
  return {
    name: isKnown ? method : 'HTTP',
    kind: SpanKind.CLIENT,
    attributes: {
      'http.request.method': isKnown ? method : '_OTHER',
      ...(origin === undefined ? {} : serverAttributes(origin, '/{path}')),
      'http.response.status_code': status || undefined,
      'http.request.resend_count': attempts > 1 ? attempts - 1 : undefined,
    },
  };
}

const errorType = (status: number | undefined) =>
  status === undefined ? '_OTHER' : status === 0 ? 'no_answer' : String(status);

const defined = (attributes: Attributes): Attributes =>
  Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined));

/** Converts an ended delivery or attempt to a span. If its events are read again, the span has the same id. */
export function toReadableSpan(span: MessageSpan): ReadableSpan {
  const { message, spanId, start, end, result, status, isPartial } = span;
  const { traceId, deliveryId, publisher, schedule } = message;
  const isDelivery = span.kind === 'delivery';
  const { name, kind, attributes } = isDelivery ? deliveryOf(span) : attemptOf(span);
  const hasFailed = result === 'failed' || result === 'error';
  const toContext = (ids: { readonly traceId: string; readonly spanId: string }) => ({
    ...ids,
    traceFlags: TraceFlags.SAMPLED,
    isRemote: true,
  });
  const isLinked = schedule !== undefined;
  const links: Link[] = isLinked && isDelivery ? [{ context: toContext(publisher), attributes: {} }] : [];
  const ofPublisher = isLinked ? undefined : toContext(publisher);
  const parent = isDelivery ? ofPublisher : toContext({ traceId, spanId: deliveryId });
  const context = { traceId, spanId, traceFlags: TraceFlags.SAMPLED };
  return {
    name,
    kind,
    spanContext: () => context,
    ...(parent ? { parentSpanContext: parent } : {}),
    startTime: hrTime(start),
    endTime: hrTime(end),
    duration: hrTime(end - start),
    status: { code: hasFailed ? SpanStatusCode.ERROR : SpanStatusCode.UNSET },
    attributes: defined({
      ...attributes,
      [`${OWN}.partial`]: isPartial || undefined,
      'error.type': hasFailed ? errorType(status) : undefined,
    }),
    links,
    events: [],
    ended: true,
    resource: resourceOf(message),
    instrumentationScope: { name: 'delivery-watch', version, schemaUrl: SCHEMA_URL },
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  };
}
