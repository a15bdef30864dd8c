import { writeFileSync } from 'node:fs';
import { get } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { hashSync } from 'bcryptjs';
import { describe, expect, it } from 'vitest';
import { createAgent } from '../support/agent.ts';
import { runCli } from '../support/cli.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';
import { type Postgres, postgresForTests, postgresIsThere } from '../support/postgres.ts';
import { freePort } from '../support/prometheus.ts';

const RULE = {
  name: 'r',
  mode: 'plan',
  match: { url: { prefix: ['https://'] } },
  stuckWhen: { inProgressFor: '48h' },
};

describe.skipIf(!postgresIsThere())('explain with a leader and a standby', () => {
  const postgres = postgresForTests();

  /** Starts two processes, optionally with password protection. Each account has one stuck callback. */
  async function setUp(webConfigFile?: string) {
    const emulator = await emulateEmpty({ token: 'token' });
    emulator.state.addDlqEntry({
      dlqId: '1-0',
      messageId: 'm1',
      url: 'https://a.example.com/',
      failureCallbackInfo: { state: 'CALLBACK_INPROGRESS' },
    } as never);
    const database = await postgres().createDatabase();
    const env = { DATABASE_URL: database, TOKEN: 'token' };
    const account = (name: string) => ({ name, baseUrl: emulator.url, token: { env: 'TOKEN' } });
    const replicas = await Promise.all(
      [1, 2].map(async () => {
        const port = await freePort();
        const config = {
          server: { listen: `127.0.0.1:${port}`, replicaUrl: `http://127.0.0.1:${port}`, webConfigFile },
          store: { kind: 'postgres', url: { env: 'DATABASE_URL' }, lease: '5s' },
          accounts: [account('a'), account('b')],
          autoCancel: { mode: 'plan', rules: [RULE] },
        };
        const agent = createAgent(config, env);
        await agent.start();
        return { agent, config, url: `http://127.0.0.1:${port}` };
      }),
    );
    const authorization = `Basic ${Buffer.from('ann:password').toString('base64')}`;
    await eventually(async () => {
      const texts = await Promise.all(
        replicas.map(async ({ url }) => (await fetch(`${url}/metrics`, { headers: { authorization } })).text()),
      );
      expect(texts.filter(text => /^delivery_watch_leader\{schema="\w+"\} 1$/m.test(text))).toHaveLength(1);
    });
    return { replicas, env, authorization, name: new URL(database).pathname.slice(1) };
  }

  /** Returns the number of transactions committed in a database within `ms`, including read-only ones. */
  async function commitsIn(server: Postgres, name: string, ms: number): Promise<number> {
    const count = async () => {
      const [row] = await server.query(`SELECT xact_commit AS n FROM pg_stat_database WHERE datname = '${name}'`);
      return Number(row?.n);
    };
    // PostgreSQL publishes a connection's statistics with a delay of one second.
    await sleep(1500);
    const before = await count();
    await sleep(ms);
    await sleep(1500);
    return (await count()) - before;
  }

  it('any process serves explain and report over HTTP with a password, and the CLI needs none', async () => {
    const web = join(newFolder(), 'web.yaml');
    writeFileSync(web, JSON.stringify({ basic_auth_users: { ann: hashSync('password', 4) } }));
    const { replicas, env, authorization } = await setUp(web);
    const ask = async (url: string, account: string) => {
      const response = await fetch(`${url}/api/v1/explain?id=1-0&account=${account}`, { headers: { authorization } });
      return { status: response.status, body: await response.json() };
    };
    for (const { url } of replicas) {
      for (const account of ['a', 'b']) {
        await eventually(async () =>
          expect(await ask(url, account)).toMatchObject({ status: 200, body: [{ account, dlqId: '1-0' }] }),
        );
      }
    }
    const config = join(newFolder(), 'config.yaml');
    writeFileSync(config, JSON.stringify(replicas[0]?.config));
    await eventually(async () => {
      const { code, stdout, stderr } = await runCli(
        ['auto-cancel', 'explain', '1-0', '--account', 'b', '--config', config],
        env,
      );
      expect([code, stdout, stderr]).toEqual([0, expect.stringContaining('b: entry 1-0'), '']);
    });
    expect((await fetch(`${replicas[0]?.url}/api/v1/explain?id=1-0`)).status).toBe(401);
    await eventually(async () => {
      const { stdout, stderr } = await runCli(['report', '--format', 'json', '--config', config], env);
      expect(stderr).toBe('');
      expect(JSON.parse(stdout).accounts).toMatchObject([
        { account: 'a', deadLetters: 1, unknown: [] },
        { account: 'b', deadLetters: 1, unknown: [] },
      ]);
    });
    expect((await fetch(`${replicas[0]?.url}/api/v1/report`)).status).toBe(401);
  });

  it('at a thousand explain requests per second, the commit rate of the database stays below three times the idle rate', async () => {
    const { replicas, name } = await setUp();
    const [one] = replicas;
    if (!one) throw new Error('there is no process');
    await eventually(async () => {
      for (const { url } of replicas) {
        for (const account of ['a', 'b']) {
          expect((await fetch(`${url}/api/v1/explain?id=1-0&account=${account}`)).status).toBe(200);
        }
      }
    });
    const idle = await commitsIn(postgres(), name, 4000);
    const statuses = new Map<string, number>();
    let stopped = false;
    const flood = (async () => {
      const note = (what: string) => void statuses.set(what, (statuses.get(what) ?? 0) + 1);
      const startedAt = performance.now();
      for (let n = 0; !stopped; await sleep(5)) {
        for (const due = Math.min(7000, performance.now() - startedAt); n < due; n += 1) {
          // Every fourth client disconnects early. Half of the ids do not exist, and the account is a, b or missing.
          const query = new URLSearchParams({ id: n % 2 ? '1-0' : `none-${n}` });
          if (n % 3) query.set('account', n % 3 === 1 ? 'a' : 'b');
          const request = get(`${one.url}/api/v1/explain?${query}`, response => {
            note(String(response.statusCode));
            response.resume();
          }).on('error', () => note('cut'));
          if (n % 4 === 0) setTimeout(() => request.destroy(), 1);
        }
      }
    })();
    const busy = await commitsIn(postgres(), name, 4000);
    stopped = true;
    await flood;
    const sent = [...statuses.values()].reduce((sum, count) => sum + count, 0);
    process.stdout.write(
      `commits in 7 s: ${idle} idle, ${busy} with ${sent} requests: ${JSON.stringify([...statuses])}\n`,
    );
    expect(sent).toBeGreaterThan(2000);
    expect([...statuses.keys()].filter(status => !['200', '404', '503', 'cut'].includes(status))).toEqual([]);
    expect(busy).toBeLessThan(idle * 3);
  });
});
