import { getCACertificates } from 'node:tls';
import { Agent, type Dispatcher, EnvHttpProxyAgent } from 'undici';
import type { Secret } from '../kit/secret.ts';

export interface DispatcherOptions {
  /** Milliseconds to connect. */
  readonly connectTimeout: number;
  /** Address of a proxy, which may hold a user and password; undefined for none. HTTP_PROXY and HTTPS_PROXY are ignored. */
  readonly proxy?: Secret | undefined;
  /** Hosts that are reached without it: `host`, `.domain`, `host:port` or `*`. */
  readonly noProxy?: readonly string[];
  /** Certificates (PEM) that are trusted beside those that Node trusts. */
  readonly ca?: string | undefined;
}

/** Connections to the service. Idle ones outlive the usual 15 s between rounds; the service's own hint still shortens this. */
const KEEP_ALIVE = 30_000;

export function createDispatcher({ connectTimeout, proxy, noProxy = [], ca }: DispatcherOptions): Dispatcher {
  const trust = ca === undefined ? {} : { ca: [...getCACertificates('default'), ca] };
  const connect = { timeout: connectTimeout, ...trust };
  if (!proxy) return new Agent({ connect, keepAliveTimeout: KEEP_ALIVE });
  return new EnvHttpProxyAgent({
    httpProxy: proxy.reveal(),
    httpsProxy: proxy.reveal(),
    noProxy: noProxy.join(','),
    connect,
    requestTls: trust,
    proxyTls: trust,
    keepAliveTimeout: KEEP_ALIVE,
  });
}
