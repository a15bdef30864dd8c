import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace';
import type { Counter } from '../kit/counter.ts';
import type { Log } from '../kit/log.ts';
import type { Env } from '../kit/secret.ts';
import { otlpReceiver, otlpVariable, type TracesProtocol, type TracingOptions, tracesProtocol } from './options.ts';

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
export function watchExporter(
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
