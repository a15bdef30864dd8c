import type { Clock } from '../kit/clock.ts';
import type { Env } from '../kit/secret.ts';
import { StoreError } from './errors.ts';
import { createMemoryStore } from './memory.ts';
import type { StoreOptions } from './options.ts';
import type { PostgresDatabase } from './postgres-database.ts';
import { attachSqliteStore, openSqliteStore } from './sqlite.ts';
import type { Store } from './store.ts';

type Which = Pick<StoreOptions, 'kind' | 'path'> & Partial<Pick<StoreOptions, 'url' | 'schema' | 'lease'>>;

/** Dependencies that only the kind `postgres` uses. */
export interface StoreDeps {
  readonly env?: Env;
  /** Candidate for the lease. If undefined, only command rows can be written. */
  readonly candidate?: { readonly url: string; readonly clock: Pick<Clock, 'monotonic'> };
}

function settingsOf({ url, schema = 'delivery_watch' }: Which) {
  if (!url) throw new StoreError('refused', 'PostgreSQL', 'store.url is not set');
  return { url, schema };
}

/** Rejects with StoreError. */
export async function openStore(options: Which, { env = {}, candidate }: StoreDeps = {}): Promise<Store> {
  const { kind, path } = options;
  if (kind === 'memory') return createMemoryStore();
  if (kind === 'sqlite') return openSqliteStore({ path });
  const { openPostgresStore } = await import('./postgres.ts');
  if (!candidate) return openPostgresStore(settingsOf(options), { env });
  const { createLease } = await import('./lease.ts');
  const leaseTime = options.lease ?? 15_000;
  const leaseOf = (database: PostgresDatabase) => createLease({ ...candidate, database, leaseTime });
  return openPostgresStore(settingsOf(options), { env, leaseOf, leaseTimeout: leaseTime / 3 });
}

/** Opens an agent's store from another process. Rejects with StoreError, for example if the store is in memory. */
export async function attachStore(options: Which, { env = {} }: StoreDeps = {}): Promise<Store> {
  const { kind, path } = options;
  if (kind === 'memory') throw new StoreError('unshared', 'the store of kind memory');
  if (kind === 'sqlite') return attachSqliteStore({ path });
  const { attachPostgresStore } = await import('./postgres.ts');
  return attachPostgresStore(settingsOf(options), { env });
}
