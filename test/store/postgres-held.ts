import { systemClock } from '../../src/kit/clock.ts';
import { Secret } from '../../src/kit/secret.ts';
import { openStore } from '../../src/store/open.ts';
import type { PostgresSettings } from '../../src/store/postgres-database.ts';
import type { Store } from '../../src/store/store.ts';

export const settingsOf = (url: string, schema = 'delivery_watch'): PostgresSettings => ({
  url: { literal: new Secret(url) },
  schema,
});

/** Opens a store as a separate process, which leads unless another one does. */
export async function openHeld(url: string, schema?: string): Promise<Store> {
  const candidate = { url: 'http://process.example', clock: systemClock };
  const store = await openStore({ kind: 'postgres', path: '', ...settingsOf(url, schema) }, { env: {}, candidate });
  await store.lease?.renew();
  return store;
}
