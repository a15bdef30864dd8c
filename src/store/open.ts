import { StoreError } from './errors.ts';
import { createMemoryStore } from './memory.ts';
import type { StoreOptions } from './options.ts';
import { attachSqliteStore, openSqliteStore } from './sqlite.ts';
import type { Store } from './store.ts';

/** The store that the configuration asks for. Rejects with StoreError when it can't be had; its message says what to do. */
export async function openStore({ kind, path }: Pick<StoreOptions, 'kind' | 'path'>): Promise<Store> {
  return kind === 'memory' ? createMemoryStore() : openSqliteStore({ path });
}

/**
 * The store of an agent that may be running, for another process. Rejects with StoreError, also when there is nothing to
 * open: an agent's memory is its own.
 */
export async function attachStore({ kind, path }: Pick<StoreOptions, 'kind' | 'path'>): Promise<Store> {
  if (kind === 'memory') throw new StoreError('unshared', 'the store of kind memory');
  return attachSqliteStore({ path });
}
