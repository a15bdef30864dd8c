import { agentUrls, readStoredKey } from '../agent/peer-key.ts';
import type { Peer } from '../http/peer.ts';
import type { Store } from '../store/store.ts';

/**
 * Requests data from the agents of a store until one responds. Returns undefined if none does. Rejects with StoreError, or
 * with the signal's reason.
 */
export async function askAgent<T>(
  store: Store,
  kind: 'sqlite' | 'postgres' | 'memory',
  signal: AbortSignal,
  ask: (peer: Peer) => Promise<T>,
): Promise<T | undefined> {
  const key = await readStoredKey(store);
  for (const url of key ? await agentUrls(store) : []) {
    try {
      if (key) return await ask({ url, key, isLocal: kind === 'sqlite' });
    } catch {
      signal.throwIfAborted();
    }
  }
  return undefined;
}
