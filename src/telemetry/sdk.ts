import { diag } from '@opentelemetry/api';
import {
  defaultResource,
  envDetector,
  hostDetector,
  resourceFromAttributes,
  serviceInstanceIdDetector,
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
import type { Counter } from '../kit/counter.ts';
import type { Log } from '../kit/log.ts';
import { createOtlpExporter, watchExporter } from './exporting.ts';
import type { TracingOptions } from './options.ts';
import { isOtlp } from './protocol.ts';
import { disableTracing } from './tracing.ts';

/** Loading this file costs some 0.3 s and 60 MB: it is imported only where tracing is on. */

export interface TracingDeps {
  readonly options: TracingOptions;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly version: string;
  readonly spans: Counter<'about' | 'outcome'>;
  readonly log: Log;
}

/** A positive number in an environment variable; undefined without one. */
function numberIn(env: TracingDeps['env'], name: string): number | undefined {
  const number = Number(env[name] || Number.NaN);
  return number > 0 ? number : undefined;
}

/** Batches with a queue that counts dropped spans: the SDK's own queue does not. */
function createProcessor(exporter: SpanExporter, { env, spans }: TracingDeps): SpanProcessor {
  const maxQueueSize = numberIn(env, 'OTEL_BSP_MAX_QUEUE_SIZE') ?? 2048;
  const maxExportBatchSize = Math.min(maxQueueSize, numberIn(env, 'OTEL_BSP_MAX_EXPORT_BATCH_SIZE') ?? 512);
  let waiting = 0;
  const taking: SpanExporter = {
    ...exporter,
    export(batch, done) {
      waiting -= batch.length;
      exporter.export(batch, done);
    },
  };
  const batching = new BatchSpanProcessor({
    exporter: taking,
    maxQueueSize,
    maxExportBatchSize,
    scheduledDelayMillis: numberIn(env, 'OTEL_BSP_SCHEDULE_DELAY') ?? 5000,
    exportTimeoutMillis: numberIn(env, 'OTEL_BSP_EXPORT_TIMEOUT') ?? 30_000,
  });
  return {
    onStart: () => undefined,
    onEnd(span: ReadableSpan) {
      if ((span.spanContext().traceFlags & 1) === 0) return;
      if (waiting >= maxQueueSize) return spans.inc({ about: 'agent', outcome: 'dropped' });
      waiting += 1;
      batching.onEnd(span);
    },
    forceFlush: () => batching.forceFlush(),
    shutdown: () => batching.shutdown(),
  };
}

/**
 * OpenTelemetry's SDK for this process. OTEL_* environment variables override `options`. Rejects with an Error for an
 * unsupported protocol.
 */
export async function prepareSdk(deps: TracingDeps) {
  const { options, env, version } = deps;
  const exporter = isOtlp(env) ? watchExporter(await createOtlpExporter(options, env), 'agent', deps) : undefined;
  const sdk = new NodeSDK({
    resource: defaultResource().merge(
      resourceFromAttributes({ 'service.name': 'delivery-watch', 'service.version': version }),
    ),
    // Not the process detector: arguments and paths are private.
    ...(env.OTEL_NODE_RESOURCE_DETECTORS
      ? {}
      : { resourceDetectors: [hostDetector, serviceInstanceIdDetector, envDetector] }),
    ...(env.OTEL_TRACES_SAMPLER
      ? {}
      : { sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(options.sampleRatio) }) }),
    ...(exporter ? { spanProcessors: [createProcessor(exporter, deps)] } : {}),
    metricReaders: [],
    logRecordProcessors: [],
    instrumentations: [],
  });
  return {
    /** Replaces an SDK that was started before; tracers created from now on use this one. */
    start(): void {
      // The API keeps the first SDK registered.
      disableTracing();
      sdk.start();
      // Its messages quote addresses and answers; what matters is counted and logged by the exporter's watch.
      diag.disable();
    },
    /** Sends pending spans as far as the receiver accepts them. */
    shutdown: (): Promise<void> => sdk.shutdown().catch(() => undefined),
  };
}
