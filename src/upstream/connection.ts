import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { lookup } from 'node:dns/promises';
import { TLSSocket } from 'node:tls';
import { type Dispatcher, request } from 'undici';
import { UpstreamError } from './errors.ts';
import { toUpstreamError } from './send.ts';
import { clockDifference, smallestDifference } from './service-clock.ts';

const CONNECTED = 'undici:client:connected';

/** Converts an error of a DNS look-up or of a connection. `where`: the host or URL that could not be reached. */
function toConnectionError(error: Error, where: string): UpstreamError {
  // Undici reports the proxy's status only in the message.
  const [, status] = /^Proxy response \((\d{3})\)/.exec(error.message) ?? [];
  if (status === undefined) return toUpstreamError(error, where);
  return new UpstreamError('network', `${where}: the proxy returned ${status}`, { cause: error });
}

/** Returns the addresses of a host. Rejects with UpstreamError. */
export async function resolveHost(host: string): Promise<readonly string[]> {
  try {
    // Remove the brackets of an IPv6 address.
    const found = await lookup(host.replace(/^\[|\]$/g, ''), { all: true });
    return found.map(({ address }) => address);
  } catch (error) {
    throw toConnectionError(error as Error, host);
  }
}

interface TlsConnection {
  readonly protocol: string | null;
  /** Expiry of the certificate (ms since the Unix epoch). */
  readonly certificateUntil: number;
}

/**
 * Opens a connection without sending a request. Returns undefined without TLS. The dispatcher must have no connection to the
 * host. Rejects with UpstreamError. `where`: name of the destination in errors.
 */
export function openConnection(dispatcher: Dispatcher, url: URL, where: string): Promise<TlsConnection | undefined> {
  return new Promise((resolve, reject) => {
    let tls: TlsConnection | undefined;
    const onConnected = (message: unknown) => {
      const { connectParams, socket } = message as { connectParams: { host: string }; socket: unknown };
      if (connectParams.host !== url.host || !(socket instanceof TLSSocket)) return;
      const certificateUntil = Date.parse(socket.getPeerCertificate().valid_to);
      tls = { protocol: socket.getProtocol(), certificateUntil };
    };
    subscribe(CONNECTED, onConnected);
    dispatcher.dispatch(
      { origin: url.origin, path: '/', method: 'GET' },
      {
        // The connection is open, and undici would send the request next.
        onRequestStart(controller) {
          resolve(tls);
          controller.abort(new Error('enough'));
        },
        onResponseStart() {},
        onResponseData() {},
        onResponseEnd() {},
        onResponseError(_controller, error) {
          unsubscribe(CONNECTED, onConnected);
          reject(toConnectionError(error, where));
        },
      },
    );
  });
}

/**
 * Requests the root without the token. Returns the service's clock minus `now` (ms), rounded towards zero within the precision
 * of the response; undefined without a readable `Date`. Rejects with UpstreamError.
 */
export async function readClockDifference(
  dispatcher: Dispatcher,
  url: URL,
  now: () => number,
  signal: AbortSignal,
): Promise<number | undefined> {
  const before = now();
  const { headers, body } = await request(url, { dispatcher, signal }).catch(error => {
    throw toConnectionError(error, url.origin);
  });
  body.on('error', () => undefined).destroy();
  const bounds = clockDifference(headers.date, before, now());
  return bounds && smallestDifference(bounds);
}
