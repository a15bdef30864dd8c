import { readFileSync } from 'node:fs';
import type { Dispatcher } from 'undici';
import { Secret } from '../kit/secret.ts';
import { createDispatcher } from './dispatcher.ts';
import type { UpstreamOptions } from './options.ts';

/** Connections for every way of reaching the service; accounts that are reached alike share them. */
export interface Dispatchers {
  /** The same object for the same settings and certificates. Throws where their file can't be read. */
  for(options: UpstreamOptions): Dispatcher;
  /** Closes all others. */
  keep(used: readonly Dispatcher[]): Promise<void>;
  destroy(): Promise<unknown>;
}

export function createDispatchers(env: Readonly<Record<string, string | undefined>>): Dispatchers {
  const made = new Map<string, Dispatcher>();
  return {
    for({ proxy, noProxy, caFile, connectTimeout }) {
      const secret = proxy && ('literal' in proxy ? proxy.literal : new Secret(env[proxy.env] ?? ''));
      const ca = caFile === null ? undefined : readFileSync(caFile, 'utf8');
      const key = JSON.stringify([secret?.reveal(), noProxy, ca, connectTimeout]);
      const dispatcher = made.get(key) ?? createDispatcher({ connectTimeout, proxy: secret ?? undefined, noProxy, ca });
      made.set(key, dispatcher);
      return dispatcher;
    },
    async keep(used) {
      const unused = [...made].filter(([, dispatcher]) => !used.includes(dispatcher));
      for (const [key] of unused) made.delete(key);
      await Promise.all(unused.map(([, dispatcher]) => dispatcher.destroy()));
    },
    destroy: () => Promise.all([...made.values()].map(dispatcher => dispatcher.destroy())),
  };
}
