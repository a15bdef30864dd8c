import { SpanStatusCode, trace } from '@opentelemetry/api';
import type { Tracer } from '../kit/tracer.ts';

/**
 * Spans through the OpenTelemetry API: they go to whatever SDK the process has registered, and cost next to nothing
 * where there is none.
 */
export function createTracer(version: string): Tracer {
  const tracer = trace.getTracer('delivery-watch', version);
  return {
    span: (name, attributes, work) =>
      tracer.startActiveSpan(name, { attributes }, async span => {
        try {
          return await work({ set: more => void span.setAttributes(more) });
        } catch (error) {
          // A closed word only: an error's text may quote what it met.
          const reason = error instanceof Error && 'reason' in error ? String(error.reason) : 'error';
          span.setAttribute('error.type', reason);
          span.setStatus({ code: SpanStatusCode.ERROR });
          throw error;
        } finally {
          span.end();
        }
      }),
  };
}
