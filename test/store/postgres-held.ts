import { systemClock } from '../../src/kit/clock.ts';
import { Secret } from '../../src/kit/secret.ts';
import { openStore } from '../../src/store/open.ts';
import type { PostgresSettings } from '../../src/store/postgres-database.ts';
import type { Store } from '../../src/store/store.ts';
import { createTestLog } from '../support/silent.ts';

export const settingsOf = (url: string, schema = 'delivery_watch'): PostgresSettings => ({
  url: { literal: new Secret(url) },
  schema,
});

/** Opens a store as a separate replica, which acquires these accounts unless another replica holds them. */
export async function openHeld(
  url: string,
  accounts: readonly string[] = ['a', 'b', 'c'],
  schema?: string,
): Promise<Store> {
  const replica = { url: 'http://replica.example', clock: systemClock, log: createTestLog() };
  const store = await openStore({ kind: 'postgres', path: '', ...settingsOf(url, schema) }, { env: {}, replica });
  await store.replicas?.renew(accounts);
  return store;
}
