import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { withDeadline } from '../kit/clock.ts';
import type { Bounds, LogBound } from './bounds.ts';
import { type Admission, clientName } from './client-certs.ts';
import { hostOf, type WebConfig } from './options.ts';
import type { Credentials, PasswordResult, Passwords } from './passwords.ts';
import { FOREIGN_KEY, isPeerRequest, type PeerKey, SIGNATURE } from './peer.ts';
import { type ResponseLimiter, whenOver } from './response-limiter.ts';
import { hasBody } from './routes/methods.ts';

/** Logs a disconnected client with the path of its request, without the query. */
export function logCut(logBound: LogBound, { url = '', socket }: IncomingMessage): void {
  const path = url.split('?', 1)[0]?.slice(0, 100);
  logBound(
    'answers',
    { path, address: socket.remoteAddress },
    'clients that do not read their response in time are disconnected',
  );
}

/** Returns whether a request is signed with `key`. If so, signs its response, which must be sent as a whole. */
export function signIfPeer(request: IncomingMessage, response: ServerResponse, key: PeerKey | undefined): boolean {
  if (!key?.isSigned(request)) return false;
  const { authorization = '' } = request.headers;
  const end = response.end.bind(response) as (...args: unknown[]) => ServerResponse;
  response.end = ((body: string | Buffer = '', ...args: unknown[]) => {
    response.setHeader(SIGNATURE, key.signResponse(authorization, response.statusCode, body));
    return end(body, ...args);
  }) as ServerResponse['end'];
  return true;
}

/** The authenticated caller (a user, or the name in a verified certificate), or a refusal. */
type Authenticated =
  | { readonly isRefused: false; readonly caller: string | undefined }
  | { readonly isRefused: true; readonly status: number; readonly text: string; readonly headers: Headers };

type Headers = Readonly<Record<string, string>>;

type Authenticate = (request: IncomingMessage, web: WebConfig) => Authenticated | Promise<Authenticated>;

const refusal = (status: number, text: string, headers: Headers = {}): Authenticated => ({
  isRefused: true,
  status,
  text,
  headers,
});

const UNAUTHORIZED = refusal(401, 'unauthorized', {
  'WWW-Authenticate': 'Basic realm="delivery-watch", charset="UTF-8"',
});

const REFUSALS: Readonly<Record<Exclude<PasswordResult, 'right'>, Authenticated>> = {
  wrong: UNAUTHORIZED,
  crowded: refusal(429, 'too many passwords of this client are being checked', { 'Retry-After': '1' }),
  full: refusal(503, 'too many passwords are being checked', { 'Retry-After': '1' }),
};

/** Returns the credentials of an Authorization header; undefined if it contains no Basic credentials. */
function credentialsOf(header: string | undefined): Credentials | undefined {
  const [, encoded] = /^basic +([\w+/=-]+)$/i.exec(header ?? '') ?? [];
  const text = Buffer.from(encoded ?? '', 'base64').toString();
  const colon = text.indexOf(':');
  return colon < 0 ? undefined : { user: text.slice(0, colon), password: text.slice(colon + 1) };
}

export function createAuthentication(passwords: Passwords): Authenticate {
  return ({ headers, socket }, { users }) => {
    if (users.size === 0) return { isRefused: false, caller: clientName(socket) };
    const given = credentialsOf(headers.authorization);
    if (!given) return UNAUTHORIZED;
    const toOutcome = (verdict: PasswordResult): Authenticated =>
      verdict === 'right' ? { isRefused: false, caller: given.user } : REFUSALS[verdict];
    const verdict = passwords.check(users, given, socket.remoteAddress ?? '');
    return typeof verdict === 'string' ? toOutcome(verdict) : verdict.then(toOutcome);
  };
}

export interface GateOptions {
  readonly bounds: Bounds;
  readonly responses: ResponseLimiter;
  /** Hosts as returned by `hostOf`. An empty set allows any host. */
  readonly hosts: () => ReadonlySet<string>;
  /** Returns the web configuration; undefined while its file is invalid. All requests are then refused. */
  readonly web: () => WebConfig | undefined;
  readonly admission: Admission;
  readonly authenticate: Authenticate;
  /** A request signed with this key needs no password and may use any Host header. */
  readonly peerKey: PeerKey | undefined;
  readonly identify: (request: IncomingMessage, caller: string) => void;
}

export function createGate(
  { bounds, responses, hosts, web, admission, authenticate, peerKey, identify }: GateOptions,
  logBound: LogBound,
  routes: RequestListener,
): RequestListener {
  function isAllowed({ headersDistinct: { host = [] } }: IncomingMessage): boolean {
    const allowed = hosts();
    return allowed.size === 0 || (host.length === 1 && allowed.has(hostOf(host[0]) ?? ''));
  }

  function setDeadline(request: IncomingMessage, response: ServerResponse): void {
    void withDeadline(bounds.responseWithin, new AbortController().signal, signal => {
      signal.addEventListener('abort', () => {
        logCut(logBound, request);
        request.socket.destroy();
      });
      return new Promise<void>(resolve => whenOver(request, response, resolve));
    });
  }

  /** Sends the body through `responses`, with a deadline for the client. */
  function sendBounded(request: IncomingMessage, response: ServerResponse): void {
    const end = response.end.bind(response) as (...args: unknown[]) => ServerResponse;
    response.end = ((...args: unknown[]) => {
      response.end = end as ServerResponse['end'];
      setDeadline(request, response);
      const [body] = args;
      if (!Buffer.isBuffer(body) || request.method === 'HEAD') return end(...args);
      responses.send(request, response, body, end);
      return response;
    }) as ServerResponse['end'];
  }

  function refuse(
    response: ServerResponse,
    status: number,
    text: string,
    headers: Readonly<Record<string, string>> = {},
  ): void {
    response.statusCode = status;
    response
      .setHeaders(new Map(Object.entries({ ...headers, 'Content-Type': 'text/plain; charset=utf-8' })))
      .end(`${text}\n`);
  }

  async function admit(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const config = web();
    if (config?.tls && !admission.isGood(request.socket, config.tls)) {
      // The client was admitted under other certificate rules.
      request.socket.destroy();
      return;
    }
    const isKnown = signIfPeer(request, response, peerKey);
    // Without this check, an agent without passwords would answer a command that found the address in another agent's store.
    if (!isKnown && isPeerRequest(request)) refuse(response, 401, FOREIGN_KEY);
    else if (!isKnown && !isAllowed(request)) refuse(response, 421, 'not a host of this server');
    else if (!config) refuse(response, 503, 'the web configuration cannot be used: see the log');
    else if (isKnown) routes(request, response);
    else {
      const found = await authenticate(request, config);
      if (found.isRefused) return refuse(response, found.status, found.text, found.headers);
      if (found.caller !== undefined) identify(request, found.caller);
      routes(request, response);
    }
  }

  return (request, response) => {
    response.setHeader('X-Content-Type-Options', 'nosniff');
    // Routes may leave the body unread, so do not reuse the connection.
    if (hasBody(request)) response.setHeader('Connection', 'close');
    sendBounded(request, response);
    admit(request, response).catch(() => {
      if (!response.headersSent) refuse(response, 503, 'passwords cannot be checked');
    });
  };
}
