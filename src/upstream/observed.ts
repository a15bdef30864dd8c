import type { Clock } from '../kit/clock.ts';
import type { Counter, Histogram } from '../kit/counter.ts';
import { serverAttributes } from '../kit/server-attributes.ts';
import type { Span, Tracer } from '../kit/tracer.ts';
import type { Call } from './call.ts';
import { outcomeOf, UpstreamError } from './errors.ts';
import type { Addresses } from './send.ts';

export interface RequestMeter {
  readonly requests: Counter<'endpoint' | 'outcome'>;
  readonly seconds: Histogram<'endpoint'>;
  readonly bytes: Counter<'endpoint'>;
}

/** Counts and times every request that is really sent, and gives it a span. A request stopped by our own end is not counted. */
export const withObservation =
  (clock: Clock, meter: RequestMeter, tracer: Tracer, addresses: Addresses) =>
  (call: Call): Call =>
  (request, headers) => {
    const { endpoint, method, address, template, query, signal } = request;
    const attributes = {
      'http.request.method': method,
      'url.template': template,
      ...serverAttributes(addresses[address], template, query),
    };
    const observed = async (span: Span) => {
      const start = clock.monotonic();
      const ended = (outcome: string, status: number | undefined) => {
        meter.requests.inc({ endpoint, outcome });
        meter.seconds.observe({ endpoint }, (clock.monotonic() - start) / 1000);
        span.set({ outcome, ...(status === undefined ? {} : { 'http.response.status_code': status }) });
      };
      try {
        const answer = await call(request, { ...headers, ...tracer.headers() });
        ended('ok', answer.status);
        return answer;
      } catch (error) {
        if (signal.aborted) span.set({ outcome: 'stopped' });
        else ended(outcomeOf(error), error instanceof UpstreamError ? error.status : undefined);
        throw error;
      }
    };
    return tracer.span(`${method} ${template}`, attributes, observed, 'client');
  };
