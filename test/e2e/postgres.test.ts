import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { runCli, startCli } from '../support/cli.ts';
import { afterThisTest } from '../support/client.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';
import { postgresForTests, postgresIsThere } from '../support/postgres.ts';

const CANARY = /canary-of|watcher/;

describe.skipIf(!postgresIsThere())('PostgreSQL', () => {
  const postgres = postgresForTests();

  it('an agent with PostgreSQL executes CLI commands from any machine, reports lease holders and exposes neither database user nor password', async () => {
    const emulator = await emulateEmpty({ token: 'token' });
    await postgres().query("CREATE ROLE watcher LOGIN PASSWORD 'canary-of-the-database'");
    const name = new URL(await postgres().createDatabase()).pathname.slice(1);
    await postgres().query('CREATE SCHEMA delivery_watch AUTHORIZATION watcher', name);
    const env = { DATABASE_URL: postgres().url(name, 'watcher'), TOKEN: 'token' };
    const config = join(newFolder(), 'config.yaml');
    const rule = { name: 'r', mode: 'plan', match: { label: { in: ['x'] } }, stuckWhen: { inProgressFor: '48h' } };
    writeFileSync(
      config,
      JSON.stringify({
        server: { listen: '127.0.0.1:0', replicaUrl: 'http://replica.example' },
        store: { kind: 'postgres', url: { env: 'DATABASE_URL' } },
        autoCancel: { mode: 'plan', rules: [rule] },
        accounts: [{ name: 'a', baseUrl: emulator.url, token: { env: 'TOKEN' } }],
      }),
    );
    const agent = startCli(['serve', '--config', config], env);
    afterThisTest(async () => {
      agent.kill('SIGKILL');
      await agent.ended;
    });
    const url = await agent.listensAt();
    const get = async (path: string) => (await fetch(url + path)).text();
    await eventually(async () =>
      expect(await get('/metrics')).toContain('delivery_watch_leader{schema="delivery_watch"} 1'),
    );

    // The agent's port is random, so commands can reach it only through the database.
    const cli = (...args: string[]) => runCli(args, env);
    const doctor = await cli('doctor', '--config', config);
    expect(doctor.stdout).toMatch(
      /ok +store +PostgreSQL 127\.0\.0\.1:\d+\/test_1, schema \d+; http:\/\/replica\.example leads$/m,
    );
    const pause = await eventually(async () => {
      const answer = await cli('auto-cancel', 'pause', '--by', 'ann', '--reason', 'incident', '--config', config);
      expect(answer.stdout).toMatch(/^paused/);
      return answer;
    });
    const journal = await cli('auto-cancel', 'journal', '--config', config);
    expect(journal.stdout).toContain('incident');
    const pending = await cli('auto-cancel', 'pending', '--config', config);
    expect(pending).toMatchObject({ code: 0, stdout: 'no action waits for approval\n' });

    await postgres().stop();
    const unreachable = await eventually(async () => {
      const found = await cli('doctor', '--config', config);
      expect(found.stdout).toContain("can't be reached (ECONNREFUSED)");
      return found;
    });
    await agent.says(/can't be reached/);
    const paths = ['/', '/accounts/a', '/metrics', '/api/v1/overview', '/api/v1/config', '/config'];
    const shown = await Promise.all(paths.map(get));
    await postgres().start();
    // After a renewal the database is available again, so the agent can release the lease at shutdown.
    const renewed = 'SELECT max(extract(epoch FROM expires))::float8 AS n FROM delivery_watch.lease';
    const [before] = await postgres().query(renewed, name);
    await eventually(async () => {
      const [after] = await postgres().query(renewed, name);
      expect(Number(after?.n)).toBeGreaterThan(Number(before?.n));
    });
    for (const each of [doctor, pause, journal, unreachable]
      .flatMap(({ stdout, stderr }) => [stdout, stderr])
      .concat(shown)) {
      expect(each).not.toMatch(CANARY);
    }
    agent.kill('SIGTERM');
    expect(await agent.ended).toBe(0);
    expect(agent.stdout() + agent.stderr()).not.toMatch(CANARY);
    const left = await postgres().query(
      `SELECT 'lane' AS what FROM delivery_watch.lanes UNION ALL SELECT holder FROM delivery_watch.lease WHERE holder IS NOT NULL`,
      name,
    );
    expect(left).toEqual([]);
  });
});
