import type { Counter, Histogram } from '../kit/counter.ts';
import type { Runtime } from '../kit/runtime.ts';
import { serverAttributes } from '../kit/server-attributes.ts';
import type { Span } from '../kit/tracer.ts';
import { type RequestOutcome, UpstreamError } from './errors.ts';
import type { Addresses, Call, Request } from './send.ts';

export interface RequestMeter {
  readonly requests: Counter<'endpoint' | 'outcome'>;
  readonly seconds: Histogram<'endpoint'>;
  readonly bytes: Counter<'endpoint'>;
}

export interface Observing extends Pick<Runtime, 'clock' | 'tracer'> {
  readonly meter: RequestMeter;
}

/** Traces one request. Counts and times it when `work` reports its outcome, which `work` must do at most once. */
export function observeRequest<T>(
  { clock, meter, tracer }: Observing,
  request: Pick<Request, 'endpoint' | 'template' | 'resends' | 'signal'> & {
    method: string;
    base: string;
    query?: URLSearchParams;
  },
  work: (ended: (outcome: RequestOutcome, status: number | undefined) => void, span: Span) => Promise<T>,
): Promise<T> {
  const { endpoint, method, base, template, query, resends = 0, signal } = request;
  const attributes = {
    'http.request.method': method,
    'url.template': template,
    ...serverAttributes(base, template, query),
    // With TLS, the server may choose HTTP/2, which undici does not report.
    ...(base.startsWith('http:') ? { 'network.protocol.version': '1.1' } : {}),
    ...(resends > 0 ? { 'http.request.resend_count': resends } : {}),
  };
  const observed = (span: Span) => {
    const start = clock.monotonic();
    return work((outcome, status) => {
      meter.requests.inc({ endpoint, outcome });
      meter.seconds.observe({ endpoint }, (clock.monotonic() - start) / 1000);
      span.set({ outcome, ...(status === undefined ? {} : { 'http.response.status_code': status }) });
    }, span);
  };
  return tracer.span(`${method} ${template}`, attributes, observed, { kind: 'client', signal });
}

/** Counts, times and traces requests. Aborted requests are only traced. */
export const withObservation =
  (observing: Observing, addresses: Addresses) =>
  (call: Call): Call =>
  (request, headers) =>
    observeRequest(observing, { ...request, base: addresses[request.address] }, async (ended, span) => {
      try {
        const response = await call(request, headers);
        ended('ok', response.status);
        return response;
      } catch (error) {
        if (request.signal.aborted) span.set({ outcome: 'stopped' });
        else if (error instanceof UpstreamError) ended(error.reason, error.status);
        else ended('bug', undefined);
        throw error;
      }
    });
