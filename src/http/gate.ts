import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { withDeadline } from '../kit/clock.ts';
import type { Bounds, LogBound } from './bounds.ts';
import { type Admission, clientName } from './listener.ts';
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

interface Refusal {
  readonly status: number;
  readonly text: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The authenticated caller (a user, or the name in a verified certificate), or a refusal. */
type Authenticated = { readonly caller: string | undefined } | Refusal;

const UNAUTHORIZED: Refusal = {
  status: 401,
  text: 'unauthorized',
  headers: { 'WWW-Authenticate': 'Basic realm="delivery-watch", charset="UTF-8"' },
};
const SOON = { 'Retry-After': '1' };
const REFUSALS: Readonly<Record<Exclude<PasswordResult, 'right'>, Refusal>> = {
  wrong: UNAUTHORIZED,
  crowded: { status: 429, text: 'too many passwords of this client are being checked', headers: SOON },
  full: { status: 503, text: 'too many passwords are being checked', headers: SOON },
};

/** Returns the credentials of an Authorization header; undefined if it contains no Basic credentials. */
function credentialsOf(header: string | undefined): Credentials | undefined {
  const [, encoded] = /^basic +([\w+/=-]+)$/i.exec(header ?? '') ?? [];
  const text = Buffer.from(encoded ?? '', 'base64').toString();
  const colon = text.indexOf(':');
  return colon < 0 ? undefined : { user: text.slice(0, colon), password: text.slice(colon + 1) };
}

export interface GateOptions {
  readonly bounds: Bounds;
  readonly responses: ResponseLimiter;
  /** Hosts as returned by `hostOf`. An empty set allows any host. */
  readonly hosts: () => ReadonlySet<string>;
  /** Returns the web configuration; undefined while its file is invalid. All requests are then refused. */
  readonly web: () => WebConfig | undefined;
  readonly admission: Admission;
  readonly passwords: Passwords;
  /** A request signed with this key needs no password and may use any Host header. */
  readonly peerKey: PeerKey | undefined;
  /** Receives the authenticated callers. */
  readonly callers: WeakMap<IncomingMessage, string>;
}

export function createGate(
  { bounds, responses, hosts, web, admission, passwords, peerKey, callers }: GateOptions,
  logBound: LogBound,
  routes: RequestListener,
): RequestListener {
  function isAllowed({ headersDistinct: { host = [] } }: IncomingMessage): boolean {
    const allowed = hosts();
    return allowed.size === 0 || (host.length === 1 && allowed.has(hostOf(host[0]) ?? ''));
  }

  async function authenticate({ headers, socket }: IncomingMessage, { users, tls }: WebConfig): Promise<Authenticated> {
    if (users.size === 0) return { caller: tls && clientName(socket, tls) };
    const given = credentialsOf(headers.authorization);
    if (!given) return UNAUTHORIZED;
    const verdict = await passwords.check(users, given, socket.remoteAddress ?? '');
    return verdict === 'right' ? { caller: given.user } : REFUSALS[verdict];
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

  function refuse(response: ServerResponse, { status, text, headers }: Refusal): void {
    response.statusCode = status;
    response
      .setHeaders(new Map(Object.entries({ ...headers, 'Content-Type': 'text/plain; charset=utf-8' })))
      .end(`${text}\n`);
  }

  async function admit(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const config = web();
    const admitted = admission.get(request.socket);
    if (config?.tls && (!admitted || admitted.clientCa !== config.tls.clientCa)) {
      // The client was admitted under other certificate rules.
      request.socket.destroy();
      return;
    }
    const isKnown = signIfPeer(request, response, peerKey);
    // Even without passwords, refuse a command that read this address from another agent's store.
    if (!isKnown && isPeerRequest(request)) refuse(response, { status: 401, text: FOREIGN_KEY });
    else if (!isKnown && !isAllowed(request)) refuse(response, { status: 421, text: 'not a host of this server' });
    else if (!config) refuse(response, { status: 503, text: 'the web configuration cannot be used: see the log' });
    else if (isKnown) routes(request, response);
    else {
      const found = await authenticate(request, config);
      if ('status' in found) return refuse(response, found);
      if (found.caller !== undefined) callers.set(request, found.caller);
      routes(request, response);
    }
  }

  return (request, response) => {
    response.setHeader('X-Content-Type-Options', 'nosniff');
    // Routes may leave the body unread, so do not reuse the connection.
    if (hasBody(request)) response.setHeader('Connection', 'close');
    sendBounded(request, response);
    admit(request, response).catch(() => {
      if (!response.headersSent) refuse(response, { status: 503, text: 'passwords cannot be checked' });
    });
  };
}
