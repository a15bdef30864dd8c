import { healthyResponse } from './healthy-service.ts';
import { listenHttp } from './listen.ts';
import { type Answer, every, type HostileService, json } from './service.ts';

const refusing = (
  name: string,
  outcome: HostileService['outcome'],
  status: number,
  headers: () => Readonly<Record<string, string>> = () => ({}),
  more: Partial<HostileService> = {},
): HostileService => ({
  name,
  outcome,
  ...more,
  start: site =>
    listenHttp(site, (_listRequest, response) =>
      response.writeHead(status, headers()).end(`{"error":"no, ${site.token} may not"}`),
    ),
});

/** Returns a service that redirects to the trap. */
const redirecting = (status: number): HostileService => ({
  name: `redirect-${status}`,
  outcome: 'invalid_response',
  start: site =>
    listenHttp(site, (_listRequest, response, request) =>
      response
        .writeHead(status, {
          location: site.trap + request.url,
          refresh: `0; url=${site.trap}`,
          'alt-svc': `http/1.1="${new URL(site.trap).host}"`,
          'set-cookie': 'session=1',
        })
        .end(),
    ),
});

const wait = (headers: () => Readonly<Record<string, string>>, name: string, more: Partial<HostileService> = {}) =>
  refusing(`limit-${name}`, 'rate_limited', 429, headers, more);

const inASecond = () => Date.now() + 1000;

/** Returns an answer that uses `answer` for the DLQ and sends correct responses for the other lists. */
const onlyFor =
  (answer: Answer): Answer =>
  (listRequest, response, request) =>
    listRequest.list === 'dlq' ? answer(listRequest, response, request) : json(response, healthyResponse(listRequest));

/** Refusals: error statuses, redirects and rate limits. */
export const refusingServices: readonly HostileService[] = [
  ...[300, 301, 302, 303, 307, 308].map(redirecting),
  refusing('not-modified', 'invalid_response', 304),
  refusing('bad-request', 'refused', 400),
  refusing('unauthorized', 'unauthorized', 401, () => ({ 'www-authenticate': 'Basic realm="other"' }), {
    counted: 'any',
  }),
  refusing('forbidden', 'forbidden', 403),
  refusing('not-found', 'not_found', 404),
  refusing('proxy-login-required', 'refused', 407, () => ({ 'proxy-authenticate': 'Basic' })),
  refusing('request-timeout', 'timeout', 408),
  refusing('gone', 'refused', 410),
  refusing('server-error', 'server', 500),
  refusing('unavailable', 'server', 503, () => ({ 'retry-after': '1' })),
  refusing('unavailable-for-years', 'server', 503, () => ({ 'retry-after': '999999999999999999999' }), {
    counted: 'none',
  }),
  refusing('status-999', 'server', 999),
  {
    name: 'forbidden-for-one-list',
    outcome: { ...every('ok' as const), dlq: 'forbidden' },
    start: site =>
      listenHttp(
        site,
        onlyFor((_listRequest, response) => response.writeHead(403).end()),
      ),
  },
  {
    name: 'hangs-for-one-list',
    outcome: { ...every('ok' as const), dlq: 'timeout' },
    start: site =>
      listenHttp(
        site,
        onlyFor(() => undefined),
      ),
  },
  wait(() => ({}), 'unspecified'),
  wait(() => ({ 'retry-after': '1' }), 'in-seconds'),
  wait(() => ({ 'retry-after': new Date(inASecond()).toUTCString() }), 'until-a-date'),
  wait(() => ({ 'retry-after': '86400' }), 'for-a-day', { counted: 'any' }),
  wait(() => ({ 'retry-after': '-1, soon' }), 'unparsable'),
  wait(() => ({ 'burst-ratelimit-reset': String(Math.ceil(inASecond() / 1000)) }), 'reset-in-seconds'),
  wait(() => ({ 'burst-ratelimit-reset': String(inASecond()) }), 'reset-in-milliseconds'),
  wait(() => ({ 'burst-ratelimit-reset': '1e300' }), 'reset-never', { counted: 'any' }),
];
