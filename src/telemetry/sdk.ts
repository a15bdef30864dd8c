import {
  type Attributes,
  diag,
  type HrTime,
  type Link,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
} from '@opentelemetry/api';
import {
  defaultResource,
  envDetector,
  hostDetector,
  type Resource,
  resourceFromAttributes,
} from '@opentelemetry/resources';
import { NodeSDK } from '@opentelemetry/sdk-node';
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  type ReadableSpan,
  type SpanExporter,
  type SpanProcessor,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace';
import { BoundedMap } from '../kit/bounded-map.ts';
import type { Counter } from '../kit/counter.ts';
import type { Log } from '../kit/log.ts';
import type { Runtime } from '../kit/runtime.ts';
import type { Env } from '../kit/secret.ts';
import { serverAttributes } from '../kit/server-attributes.ts';
import { version } from '../kit/version.ts';
import type { MessageSpan, MessageSpans, TracedMessage } from '../model/message-span.ts';
import {
  isOtlp,
  otlpReceiver,
  otlpVariable,
  type TracesProtocol,
  type TracingOptions,
  tracesProtocol,
  variableIn,
} from './options.ts';
import { disableTracing, SCHEMA_URL } from './tracing.ts';

/** Value of `messaging.system`, and the namespace of attributes for which there is no convention. */
const SYSTEM = 'message_delivery';
const OWN = `messaging.${SYSTEM}`;

/** Methods that the conventions know. */
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'CONNECT', 'OPTIONS', 'TRACE', 'PATCH', 'QUERY'];

const hrTime = (ms: number): HrTime => [Math.floor(ms / 1000), Math.round((ms % 1000) * 1e6)];

/** The service, not the agent: each account is an instance. */
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

/** Converts an ended delivery or attempt to a span, which replays repeat with the same id. */
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

/** Import this file only if tracing is enabled: loading it takes about 0.3 s and 60 MB. */

interface TracingDeps extends Pick<Runtime, 'env' | 'log'> {
  readonly options: TracingOptions;
  readonly spans: Counter<'outcome'>;
  readonly instance: string;
}

/** Timeout of one export (ms). */
const TIMEOUT_MS = 5000;

/** Only the configured exporter is imported. */
const PROTOCOLS = {
  'http/protobuf': async () => (await import('@opentelemetry/exporter-trace-otlp-proto')).OTLPTraceExporter,
  'http/json': async () => (await import('@opentelemetry/exporter-trace-otlp-http')).OTLPTraceExporter,
} satisfies Record<TracesProtocol, unknown>;

/**
 * Creates an exporter. The exporter itself reads OpenTelemetry's environment variables, except those for address, headers and
 * certificates. Rejects with an Error if a variable has an unsupported value.
 */
export async function createOtlpExporter(options: Pick<TracingOptions, 'endpoint' | 'headers'>, env: Env) {
  const load = PROTOCOLS[tracesProtocol(env)];
  const receiver = otlpReceiver(options, env);
  const hasTimeout = otlpVariable(env, 'TIMEOUT').name !== undefined;
  const OTLPTraceExporter = await load();
  return new OTLPTraceExporter({ ...receiver, ...(hasTimeout ? {} : { timeoutMillis: TIMEOUT_MS }) });
}

/** Returns why an export failed: a status or an error code, never the receiver's text. */
function reasonOf(error: Error | undefined): string {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === 'number' ? `status ${code}` : typeof code === 'string' ? code : (error?.name ?? 'error');
}

/** Counts exported and failed spans, and logs when the receiver starts to fail and when it recovers. */
function watchExporter(
  exporter: SpanExporter,
  { spans, log }: { readonly spans: Counter<'outcome'>; readonly log: Log },
): SpanExporter {
  let isFailing = false;
  return {
    export(batch: ReadableSpan[], done) {
      exporter.export(batch, result => {
        const failed = result.code !== 0;
        spans.inc({ outcome: failed ? 'failed' : 'exported' }, batch.length);
        if (failed && !isFailing)
          log.warn({ reason: reasonOf(result.error) }, 'the trace receiver does not accept spans');
        if (!failed && isFailing) log.info({}, 'the trace receiver accepts spans again');
        isFailing = failed;
        done(result);
      });
    },
    shutdown: () => exporter.shutdown(),
    ...(exporter.forceFlush ? { forceFlush: () => exporter.forceFlush?.() ?? Promise.resolve() } : {}),
  };
}

function numberIn(env: Env, name: string): number | undefined {
  const number = Number(env[name] || Number.NaN);
  return number > 0 ? number : undefined;
}

/** Creates a span processor that counts dropped spans, because the SDK's own queue does not count them. */
function createProcessor(exporter: SpanExporter, { env, spans, options }: TracingDeps): SpanProcessor {
  // A read of the event log may end many messages at once.
  const maxQueueSize = numberIn(env, 'OTEL_BSP_MAX_QUEUE_SIZE') ?? (options.messages ? 10_000 : 2048);
  const maxExportBatchSize = Math.min(maxQueueSize, numberIn(env, 'OTEL_BSP_MAX_EXPORT_BATCH_SIZE') ?? 512);
  let waiting = 0;
  const dequeuing: SpanExporter = {
    ...exporter,
    export(batch, done) {
      waiting -= batch.length;
      exporter.export(batch, done);
    },
  };
  const batching = new BatchSpanProcessor({
    exporter: dequeuing,
    maxQueueSize,
    maxExportBatchSize,
    scheduledDelayMillis: numberIn(env, 'OTEL_BSP_SCHEDULE_DELAY') ?? 5000,
    exportTimeoutMillis: numberIn(env, 'OTEL_BSP_EXPORT_TIMEOUT') ?? 30_000,
  });
  return {
    onStart: () => undefined,
    onEnd(span: ReadableSpan) {
      if ((span.spanContext().traceFlags & 1) === 0) return;
      if (waiting >= maxQueueSize) return spans.inc({ outcome: 'dropped' });
      waiting += 1;
      batching.onEnd(span);
    },
    forceFlush: () => batching.forceFlush(),
    shutdown: () => batching.shutdown(),
  };
}

/**
 * Prepares the SDK. OTEL_* environment variables override `options`. Rejects with an Error if the protocol is not supported.
 */
export async function prepareSdk(deps: TracingDeps) {
  const { options, env, instance, spans } = deps;
  const processor =
    isOtlp(env) || options.messages
      ? createProcessor(watchExporter(await createOtlpExporter(options, env), deps), deps)
      : undefined;
  const sdk = new NodeSDK({
    resource: defaultResource().merge(
      resourceFromAttributes(
        {
          'service.name': 'delivery-watch',
          'service.version': version,
          'service.instance.id': instance,
        },
        { schemaUrl: SCHEMA_URL },
      ),
    ),
    // Omit the process detector: it would export arguments and paths.
    ...(variableIn(env, 'OTEL_NODE_RESOURCE_DETECTORS').name ? {} : { resourceDetectors: [hostDetector, envDetector] }),
    ...(variableIn(env, 'OTEL_TRACES_SAMPLER').name
      ? {}
      : { sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(options.sampleRatio) }) }),
    // OTEL_TRACES_EXPORTER selects the exporter of the agent's spans alone.
    ...(processor && isOtlp(env) ? { spanProcessors: [processor] } : {}),
    metricReaders: [],
    logRecordProcessors: [],
    instrumentations: [],
  });
  return {
    /** Replaces the previously started SDK. Tracers created afterwards use this one. */
    start(): void {
      // The API ignores a second registration.
      disableTracing();
      sdk.start();
      // The SDK's messages quote addresses and responses. `watchExporter` logs and counts failures instead.
      diag.disable();
    },
    sendMessageSpans: ((ended, dropped) => {
      if (dropped > 0) spans.inc({ outcome: 'dropped' }, dropped);
      for (const span of ended) processor?.onEnd(toReadableSpan(span));
    }) satisfies MessageSpans,
    /** Tries to send pending spans. Never rejects. */
    async shutdown(): Promise<void> {
      await Promise.allSettled([sdk.shutdown(), processor?.shutdown()]);
    },
  };
}
