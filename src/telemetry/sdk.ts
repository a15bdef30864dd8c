import { diag } from '@opentelemetry/api';
import { defaultResource, envDetector, hostDetector, resourceFromAttributes } from '@opentelemetry/resources';
import { NodeSDK } from '@opentelemetry/sdk-node';
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  type ReadableSpan,
  type SpanExporter,
  type SpanProcessor,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace';
import type { Counter } from '../kit/counter.ts';
import type { Log } from '../kit/log.ts';
import type { Runtime } from '../kit/runtime.ts';
import type { Env } from '../kit/secret.ts';
import { version } from '../kit/version.ts';
import type { MessageSpans } from '../model/message-span.ts';
import { toReadableSpan } from './message-spans.ts';
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
  // One read of the event log may show that many messages have ended.
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
    // OTEL_TRACES_EXPORTER applies to the agent's own spans, not to spans of messages.
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
