import { context, propagation, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import type { Tracer } from '../kit/tracer.ts';

/** A tracer that can switch to another SDK. */
export type ProcessTracer = ReturnType<typeof createTracer>;

/** Removes the started SDK: spans created from now on are dropped. */
export function disableTracing(): void {
  trace.disable();
  context.disable();
  propagation.disable();
}

/**
 * Spans through the OpenTelemetry API: they go to the SDK that is started when this is called, and cost almost nothing without
 * one. `propagate`: whether requests carry them in `traceparent`.
 */
export function createTracer(version: string, propagate: boolean): Tracer & { use(propagate: boolean): void } {
  const current = () => trace.getTracer('delivery-watch', version);
  let [tracer, isPropagated] = [current(), propagate];
  return {
    // From now on spans go to the SDK that is started now.
    use(next) {
      [tracer, isPropagated] = [current(), next];
    },
    span: (name, attributes, work, kind = 'internal') =>
      tracer.startActiveSpan(
        name,
        { attributes, kind: kind === 'client' ? SpanKind.CLIENT : SpanKind.INTERNAL },
        async span => {
          const fail = (reason: string) => {
            span.setAttribute('error.type', reason);
            span.setStatus({ code: SpanStatusCode.ERROR });
          };
          try {
            return await work({ set: more => void span.setAttributes(more), fail });
          } catch (error) {
            // A closed word only: an error's text may quote what it met.
            fail(error instanceof Error && 'reason' in error ? String(error.reason) : 'error');
            throw error;
          } finally {
            span.end();
          }
        },
      ),
    headers() {
      const carrier: Record<string, string> = {};
      if (isPropagated) propagation.inject(context.active(), carrier);
      return carrier;
    },
  };
}
