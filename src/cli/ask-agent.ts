import { agentUrls, readStoredKey } from '../agent/peer-key.ts';
import type { Peer } from '../http/peer.ts';
import type { Store } from '../store/store.ts';

/**
 * Requests data from the agents of a store until one responds. Returns undefined if none does. Rejects with StoreError, or
 * with the signal's reason.
 */
export async function askAgent<T>(
  store: Store,
  signal: AbortSignal,
  ask: (peer: Peer) => Promise<T>,
): Promise<T | undefined> {
  const key = await readStoredKey(store);
  if (!key) return undefined;
  for (const url of await agentUrls(store)) {
    try {
      return await ask({ url, key, isLocal: store.agents === undefined });
    } catch {
      signal.throwIfAborted();
    }
  }
  return undefined;
}
