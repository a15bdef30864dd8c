import { context, propagation, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import type { Tracer } from '../kit/tracer.ts';
import { version } from '../kit/version.ts';

export type ProcessTracer = ReturnType<typeof createTracer>;

/** Unregisters the SDK. Spans created afterwards are dropped. */
export function disableTracing(): void {
  trace.disable();
  context.disable();
  propagation.disable();
}

/** Creates a tracer that uses the currently registered SDK. `propagate`: whether requests carry a `traceparent` header. */
export function createTracer(propagate: boolean): Tracer & { use(propagate: boolean): void } {
  const current = () => trace.getTracer('delivery-watch', version);
  let [tracer, isPropagated] = [current(), propagate];
  return {
    /** Switches to the SDK that is registered now. */
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
            // Record only the error's reason, which is from a fixed set: the message may quote content.
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
