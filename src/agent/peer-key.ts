import { randomBytes } from 'node:crypto';
import { createPeerKey, healthPathOf, type PeerKey } from '../http/peer.ts';
import { NO_ACCOUNT, type Store } from '../store/store.ts';

const KEY = 'agent/key';
/** Row key for the agent's URL. A leader's URL is part of its lease. */
const URL_ROW = 'agent/url';

async function read(store: Pick<Store, 'scan'>, key: string): Promise<string | undefined> {
  return (await store.scan(NO_ACCOUNT, key)).get(key);
}

/** Returns the key shared by all agents of a store and creates it if it is missing. `file`: configuration of this agent. Rejects with StoreError. */
export async function createStoredKey(store: Pick<Store, 'scan' | 'create'>, file = ''): Promise<PeerKey | undefined> {
  await store.create(KEY, randomBytes(32).toString('base64url'));
  return readStoredKey(store, file);
}

/** Returns the stored key; undefined if no agent has used the store yet. Rejects with StoreError. */
export async function readStoredKey(store: Pick<Store, 'scan'>, file = ''): Promise<PeerKey | undefined> {
  const secret = await read(store, KEY);
  return secret === undefined ? undefined : createPeerKey(secret, undefined, healthPathOf(file));
}

export const writeAgentUrl = (store: Pick<Store, 'commit'>, value: string) =>
  store.commit(NO_ACCOUNT, [{ key: URL_ROW, value }]);

/** Returns the URLs of all agents that use the store. Rejects with StoreError. */
export async function agentUrls(store: Pick<Store, 'scan' | 'agents'>): Promise<readonly string[]> {
  if (store.agents) return store.agents();
  const url = await read(store, URL_ROW);
  return url === undefined ? [] : [url];
}
