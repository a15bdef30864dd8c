import { context, propagation, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import type { SpanAttributes, Tracer } from '../kit/tracer.ts';
import { version } from '../kit/version.ts';

/** Semantic conventions that all spans follow. The messaging conventions are still in development. */
export const SCHEMA_URL = 'https://opentelemetry.io/schemas/1.45.0';

/** Unregisters the SDK. Spans created afterwards are dropped. */
export function disableTracing(): void {
  trace.disable();
  context.disable();
  propagation.disable();
}

const namespaced = (attributes: SpanAttributes): SpanAttributes =>
  Object.fromEntries(
    Object.entries(attributes).map(([name, value]) => [name.includes('.') ? name : `delivery_watch.${name}`, value]),
  );

/** Creates a tracer that uses the currently registered SDK. */
export function createTracer(): Tracer {
  const current = () => trace.getTracerProvider().getTracer('delivery-watch', version, { schemaUrl: SCHEMA_URL });
  return {
    span: (name, attributes, work, { kind = 'internal', signal } = {}) =>
      current().startActiveSpan(
        name,
        { attributes: namespaced(attributes), kind: kind === 'client' ? SpanKind.CLIENT : SpanKind.INTERNAL },
        async span => {
          const fail = (reason: string) => {
            span.setAttribute('error.type', reason);
            span.setStatus({ code: SpanStatusCode.ERROR });
          };
          try {
            return await work({ set: more => void span.setAttributes(namespaced(more)), fail });
          } catch (error) {
            // Record only the error's reason, which is from a fixed set: the message may quote content.
            const reason = error instanceof Error && 'reason' in error ? String(error.reason) : '_OTHER';
            if (!signal?.aborted) fail(reason);
            throw error;
          } finally {
            span.end();
          }
        },
      ),
  };
}
