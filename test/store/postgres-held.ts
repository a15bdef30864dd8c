import { Secret } from '../../src/kit/secret.ts';
import { openPostgresStore, type ReplicaDeps } from '../../src/store/postgres.ts';
import type { PostgresSettings } from '../../src/store/postgres-database.ts';
import type { Store } from '../../src/store/store.ts';

export const settingsOf = (url: string): PostgresSettings => ({
  url: { literal: new Secret(url) },
  schema: 'delivery_watch',
});

/** A store that holds every account, as if no other replica were there. */
export const openHeld = (url: string, deps: Partial<ReplicaDeps> = {}): Promise<Store> =>
  openPostgresStore(settingsOf(url), {
    env: {},
    leasesOf: () => ({
      fence: { epochOf: () => '1', heldSql: 'SELECT account, epoch FROM given', loseAll: () => undefined },
    }),
    ...deps,
  });
