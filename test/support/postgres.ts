import { afterAll, beforeAll } from 'vitest';
import { type Postgres, type PostgresOptions, startPostgres } from './postgres-server.ts';

export { type Postgres, postgresIsThere } from './postgres-server.ts';

/**
 * Starts a server before the tests of this file or `describe`, and ends it with them: to be called once a file, as its start
 * takes seconds. The function gives it to a test.
 */
export function postgresForTests(options?: PostgresOptions): () => Postgres {
  let started: Postgres | undefined;
  beforeAll(async () => {
    started = await startPostgres(options);
  });
  afterAll(() => started?.close());
  return () => {
    if (!started) throw new Error('PostgreSQL runs only while tests do');
    return started;
  };
}
