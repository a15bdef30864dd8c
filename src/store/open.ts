import { createMemoryStore } from './memory.ts';
import type { StoreOptions } from './options.ts';
import { openSqliteStore } from './sqlite.ts';
import type { Store } from './store.ts';

/** The store that the configuration asks for. Rejects with StoreError when it can't be had; its message says what to do. */
export async function openStore({ kind, path }: StoreOptions): Promise<Store> {
  return kind === 'memory' ? createMemoryStore() : openSqliteStore({ path });
}
