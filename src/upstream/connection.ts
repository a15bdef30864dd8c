import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { TLSSocket } from 'node:tls';
import { type Dispatcher, request } from 'undici';
import { UpstreamError } from './errors.ts';
import { toUpstreamError } from './send.ts';
import { clockDifference } from './service-clock.ts';

const CONNECTED = 'undici:client:connected';

/** Converts an error of a look-up or a connection. `where`: what could not be reached. */
export function toConnectionError(error: Error, where: string): UpstreamError {
  // Undici reports the proxy's status only in the message.
  const [, status] = /^Proxy response \((\d{3})\)/.exec(error.message) ?? [];
  if (status === undefined) return toUpstreamError(error, where);
  return new UpstreamError('network', `${where}: the proxy returned ${status}`, { cause: error });
}

interface TlsConnection {
  readonly protocol: string | null;
  /** Expiry of the certificate (ms since the Unix epoch). */
  readonly certificateUntil: number;
}

/**
 * Opens a connection without sending a request. Returns undefined without TLS. The dispatcher must have no connection to the
 * host. Rejects with UpstreamError. `where`: what is reached, for errors.
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

/** Compares `now` with the `Date` of a response to a request without the token: see `clockDifference`. */
export async function readClockDifference(dispatcher: Dispatcher, url: URL, now: () => number, signal: AbortSignal) {
  const before = now();
  const { headers, body } = await request(url, { dispatcher, signal }).catch(error => {
    throw toConnectionError(error, url.host);
  });
  body.on('error', () => undefined).destroy();
  return clockDifference(headers.date, before, now());
}
