import { afterAll, beforeAll } from 'vitest';
import { type Postgres, type PostgresOptions, startPostgres } from './postgres-server.ts';

export { type Postgres, postgresIsThere } from './postgres-server.ts';

/**
 * Starts a server before the tests of this file or `describe` and stops it afterwards. Use once per file, because a start takes
 * seconds. Returns a getter for the server.
 */
export function postgresForTests(options?: PostgresOptions): () => Postgres {
  let started: Postgres | undefined;
  beforeAll(async () => {
    started = await startPostgres(options);
  });
  afterAll(() => started?.close());
  return () => {
    if (!started) throw new Error('PostgreSQL only runs during tests');
    return started;
  };
}
