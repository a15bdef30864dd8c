import type { Clock } from '../kit/clock.ts';
import type { Counter, Histogram } from '../kit/counter.ts';
import type { Tracer } from '../kit/tracer.ts';
import type { Call } from './call.ts';
import { outcomeOf } from './errors.ts';

export interface RequestMeter {
  readonly requests: Counter<'endpoint' | 'outcome'>;
  readonly seconds: Histogram<'endpoint'>;
  readonly bytes: Counter<'endpoint'>;
}

/** Counts and times every request that is really sent, and gives it a span. A request stopped by our own end is not counted. */
export const withObservation =
  (clock: Clock, meter: RequestMeter, tracer: Tracer) =>
  (call: Call): Call =>
  (request, headers) => {
    const { endpoint, method, path, signal } = request;
    return tracer.span(`${method} ${path}`, { 'http.request.method': method, 'url.path': path }, async span => {
      const start = clock.monotonic();
      const ended = (outcome: string) => {
        meter.requests.inc({ endpoint, outcome });
        meter.seconds.observe({ endpoint }, (clock.monotonic() - start) / 1000);
        span.set({ outcome });
      };
      try {
        const answer = await call(request, headers);
        ended('ok');
        return answer;
      } catch (error) {
        if (!signal.aborted) ended(outcomeOf(error));
        throw error;
      }
    });
  };
