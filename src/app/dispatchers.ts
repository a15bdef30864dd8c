import { readFileSync } from 'node:fs';
import type { Dispatcher } from 'undici';
import { Secret } from '../kit/secret.ts';
import { createDispatcher } from '../upstream/dispatcher.ts';
import type { UpstreamOptions } from '../upstream/options.ts';

/** Connections for every way of reaching the service; accounts that are reached alike share them. */
export interface Dispatchers {
  for(options: UpstreamOptions): Dispatcher;
  destroy(): Promise<unknown>;
}

export function createDispatchers(env: Readonly<Record<string, string | undefined>>): Dispatchers {
  const made = new Map<string, Dispatcher>();
  return {
    for({ proxy, noProxy, caFile, connectTimeout }) {
      const secret = proxy && ('literal' in proxy ? proxy.literal : new Secret(env[proxy.env] ?? ''));
      const key = JSON.stringify([secret?.reveal(), noProxy, caFile, connectTimeout]);
      const ca = caFile === null ? undefined : readFileSync(caFile, 'utf8');
      const dispatcher = made.get(key) ?? createDispatcher({ connectTimeout, proxy: secret ?? undefined, noProxy, ca });
      made.set(key, dispatcher);
      return dispatcher;
    },
    destroy: () => Promise.all([...made.values()].map(dispatcher => dispatcher.destroy())),
  };
}
