import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { TLSSocket } from 'node:tls';
import { type Dispatcher, request } from 'undici';
import { MAX_CLOCK_SKEW } from '../../kit/clock.ts';
import type { Closing } from '../../kit/closing.ts';
import { createDispatcher } from '../../upstream/dispatcher.ts';
import { clockDifference, smallestDifference } from '../../upstream/service-clock.ts';
import { CHECK_TIMEOUT, type Diagnosis, type DoctorDeps, fail, ok, warn, wordOf } from './checklist.ts';

const DAY = 86_400_000;
/** Remaining validity below which a certificate should be renewed (ms). */
const RENEW_BEFORE = 14 * DAY;
/** Clock skew (ms) above which TLS may fail. */
const CLOCK_FAILS = 60_000;

export function openDispatcher(closing: Closing, { timeout = CHECK_TIMEOUT }: Pick<DoctorDeps, 'timeout'>): Dispatcher {
  const dispatcher = createDispatcher({ connectTimeout: timeout });
  closing.add('connections', () => dispatcher.destroy());
  return dispatcher;
}

/** Returns the TLS version and the certificate's expiry (ms since the Unix epoch); undefined without TLS. */
function tlsOf(socket: unknown) {
  if (!(socket instanceof TLSSocket)) return undefined;
  return {
    protocol: socket.getProtocol() ?? 'TLS',
    certificateUntil: Date.parse(socket.getPeerCertificate().valid_to),
  };
}

/** Opens a connection without sending a request. Rejects with the connection error. */
function connect(dispatcher: Dispatcher, url: URL): Promise<ReturnType<typeof tlsOf>> {
  return new Promise((resolve, reject) => {
    let tls: ReturnType<typeof tlsOf>;
    const onConnected = (message: unknown) => {
      const { connectParams, socket } = message as { connectParams: { host: string }; socket: unknown };
      if (connectParams.host === url.host) tls = tlsOf(socket);
    };
    const channel = 'undici:client:connected';
    subscribe(channel, onConnected);
    let isReached = false;
    const end = (error?: Error) => {
      unsubscribe(channel, onConnected);
      if (isReached) resolve(tls);
      else reject(error ?? new Error('the connection ended'));
    };
    dispatcher.dispatch(
      { origin: url.origin, path: '/', method: 'GET' },
      {
        // The connection is open, and undici would send the request next.
        onRequestStart(controller) {
          isReached = true;
          controller.abort(new Error('enough'));
        },
        onResponseStart() {},
        onResponseData() {},
        onResponseEnd: () => end(),
        onResponseError: (_controller, error) => end(error),
      },
    );
  });
}

const WRONG_CA =
  /^(DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_(GET|VERIFY)\w*|CERT_SIGNATURE_FAILURE)$/;
const REMEDIES: readonly (readonly [code: RegExp, todo: string])[] = [
  [/^(ENOTFOUND|EAI_AGAIN)$/, 'check the host name and the resolver of this machine'],
  [/^ECONNREFUSED$/, 'nothing listens there: check the address, its port and the firewall'],
  [/^(ETIMEDOUT|UND_ERR_CONNECT_TIMEOUT|EHOSTUNREACH|ENETUNREACH)$/, 'check route, firewall and proxy'],
  [/^CERT_(HAS_EXPIRED|NOT_YET_VALID)$/, "renew the certificate; check this machine's clock"],
  [WRONG_CA, 'name the CA that signed it: upstream.caFile for the service, NODE_EXTRA_CA_CERTS for all'],
  [/^ERR_TLS_CERT_ALTNAME_INVALID$/, 'the certificate is for another host: check the address'],
  [/^(EPROTO|ERR_SSL_.*)$/, 'the port does not speak this TLS: check scheme and port'],
];

/** Undici reports the proxy's status only in the message. */
const PROXY_STATUS = /^Proxy response \((\d{3})\)/;

function toFailure(where: string, error: unknown): Diagnosis {
  const [, status] = PROXY_STATUS.exec((error as Error).message) ?? [];
  if (status !== undefined) {
    return fail(`${where}: the proxy returned ${status}`, 'check user and password of the proxy, and what it allows');
  }
  const word = wordOf(error);
  const todo =
    REMEDIES.find(([code]) => code.test(word))?.[1] ?? 'search for this error code; check route, firewall and proxy';
  return fail(`${where}: ${word}`, todo);
}

export async function checkDns(host: string): Promise<Diagnosis> {
  // Remove the brackets of an IPv6 address.
  const name = host.replace(/^\[|\]$/g, '');
  if (isIP(name) !== 0) return ok(`not needed: ${host} is an address`);
  try {
    const found = await lookup(name, { all: true });
    return ok(`${host} is ${found.map(({ address }) => address).join(', ')}`);
  } catch (error) {
    return toFailure(host, error);
  }
}

/** Opens a TCP or TLS connection without sending a request. `via`: text that names the proxy in the result. */
export async function checkConnection(
  { dispatcher, now }: { readonly dispatcher: Dispatcher; readonly now: () => number },
  url: URL,
  via = '',
): Promise<Diagnosis> {
  const where = `${url.protocol}//${url.host}${via}`;
  try {
    const tls = await connect(dispatcher, url);
    if (!tls) return ok(where);
    const left = tls.certificateUntil - now();
    const until = new Date(tls.certificateUntil).toISOString().slice(0, 10);
    const detail = `${where}, ${tls.protocol}, certificate until ${until}`;
    return left < RENEW_BEFORE
      ? warn(`${detail}: ${Math.max(0, Math.floor(left / DAY))} days`, 'renew the certificate')
      : ok(detail);
  } catch (error) {
    return toFailure(where, error);
  }
}

/** Compares the local clock with the service's `Date` header, without sending the token. */
export async function checkClock(
  { dispatcher, now }: { readonly dispatcher: Dispatcher; readonly now: () => number },
  url: URL,
  signal: AbortSignal,
): Promise<Diagnosis> {
  const before = now();
  const { headers, body } = await request(url, { dispatcher, signal, method: 'GET' });
  const after = now();
  body.on('error', () => undefined).destroy();
  const bounds = clockDifference(headers.date, before, after);
  if (!bounds) {
    const todo = 'compare the clock of this machine with a time server; without a Date, auto-cancel is suspended';
    return warn('the service sends no readable Date', todo);
  }
  const difference = smallestDifference(bounds);
  const off = Math.abs(difference);
  const side = difference < 0 ? 'ahead of' : 'behind';
  const detail = `${(off / 1000).toFixed(1)} s ${side} the service's`;
  const todo = 'synchronize the clock of this machine (NTP): auto-cancel is suspended until then';
  if (off > CLOCK_FAILS) return fail(detail, todo);
  return off > MAX_CLOCK_SKEW ? warn(detail, todo) : ok(off === 0 ? "agrees with the service's" : detail);
}
