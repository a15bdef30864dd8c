import { readFileSync } from 'node:fs';
import { getCACertificates } from 'node:tls';
import { Agent, type Dispatcher, EnvHttpProxyAgent } from 'undici';
import { type Env, Secret } from '../kit/secret.ts';
import type { UpstreamOptions } from './options.ts';

export interface DispatcherOptions {
  /** Connection timeout (ms). */
  readonly connectTimeout: number;
  /** URL, possibly with user and password. HTTP_PROXY and HTTPS_PROXY are ignored. */
  readonly proxy?: Secret | undefined;
  readonly noProxy?: readonly string[];
  /** CA certificates (PEM) to trust in addition to the defaults of Node.js. */
  readonly ca?: string | undefined;
}

/** Timeout of idle connections (ms): longer than the default 15 s between rounds. A Keep-Alive header may shorten it. */
const KEEP_ALIVE = 30_000;

export function createDispatcher({ connectTimeout, proxy, noProxy = [], ca }: DispatcherOptions): Dispatcher {
  // Without `rejectUnauthorized`, NODE_TLS_REJECT_UNAUTHORIZED could turn verification off.
  const trust = { rejectUnauthorized: true, ...(ca !== undefined && { ca: [...getCACertificates('default'), ca] }) };
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

/** Connections of all accounts. Accounts with the same settings share them. */
export type Dispatchers = ReturnType<typeof createDispatchers>;

export function createDispatchers(env: Env) {
  const made = new Map<string, Dispatcher>();
  return {
    /** Returns the same dispatcher for the same settings and certificates. Throws if the certificate file cannot be read. */
    for({ proxy, noProxy, caFile, connectTimeout }: UpstreamOptions): Dispatcher {
      const secret = proxy && ('literal' in proxy ? proxy.literal : new Secret(env[proxy.env] ?? ''));
      const ca = caFile === null ? undefined : readFileSync(caFile, 'utf8');
      const key = JSON.stringify([secret?.reveal(), noProxy, ca, connectTimeout]);
      const dispatcher = made.get(key) ?? createDispatcher({ connectTimeout, proxy: secret ?? undefined, noProxy, ca });
      made.set(key, dispatcher);
      return dispatcher;
    },
    async keep(used: readonly Dispatcher[]): Promise<void> {
      const unused = [...made].filter(([, dispatcher]) => !used.includes(dispatcher));
      for (const [key] of unused) made.delete(key);
      await Promise.all(unused.map(([, dispatcher]) => dispatcher.destroy()));
    },
    destroy: (): Promise<unknown> => Promise.all([...made.values()].map(dispatcher => dispatcher.destroy())),
  };
}
