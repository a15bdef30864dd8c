import { existsSync } from 'node:fs';
import { Client } from 'pg';
import { describe, expect, it } from 'vitest';
import { postgresForTests, postgresIsThere } from '../support/postgres.ts';

describe.skipIf(!postgresIsThere())('PostgreSQL server for tests', () => {
  const postgres = postgresForTests();

  it('the test server creates databases, keeps committed rows after every kind of stop, and does not respond while paused', async () => {
    const server = postgres();
    const url = await server.createDatabase();
    expect(await server.createDatabase()).not.toBe(url);
    const name = new URL(url).pathname.slice(1);
    await server.query('CREATE TABLE t (n int)', name);
    for (const mode of ['fast', 'immediate', 'kill'] as const) {
      await server.query('INSERT INTO t VALUES (1)', name);
      const pids = server.pids();
      expect(pids.length).toBeGreaterThan(1);
      await server.restart(mode);
      expect(server.pids()).not.toContain(pids[0]);
      expect(existsSync(`/proc/${pids[0]}`)).toBe(false);
    }
    const client = new Client({ connectionString: url });
    await client.connect();
    server.pause();
    let answered = false;
    const answer = client.query('SELECT count(*)::int AS n FROM t').then(({ rows }) => {
      answered = true;
      return rows;
    });
    await new Promise(resolve => setTimeout(resolve, 200));
    expect(answered).toBe(false);
    server.resume();
    expect(await answer).toEqual([{ n: 3 }]);
    await client.end();
  });
});
