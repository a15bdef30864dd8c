import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import { createAgent, unlimited } from '../support/agent.ts';
import { afterThisTest } from '../support/client.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { postgresForTests, postgresIsThere } from '../support/postgres.ts';
import { startTcpLink } from '../support/tcp-link.ts';

describe.skipIf(!postgresIsThere())('SIGTERM while the database does not respond', () => {
  const postgres = postgresForTests();

  /** Creates an agent with a database connection that can hang. */
  async function setUp(url?: string) {
    const emulator = await emulateEmpty({ token: 'token' });
    const database = new URL(await postgres().createDatabase());
    const link = await startTcpLink({ host: database.hostname, port: Number(database.port) });
    afterThisTest(() => link.close());
    database.port = String(link.port);
    const agent = createAgent(
      {
        store: { kind: 'postgres', url: { env: 'DATABASE_URL' }, lease: '5s' },
        accounts: [unlimited('a', emulator.url)],
      },
      { DELIVERY_TOKEN: 'token', DATABASE_URL: url ?? database.href },
    );
    async function expectStop() {
      const start = performance.now();
      expect(await agent.end('SIGTERM')).toBe(0);
      expect(performance.now() - start).toBeLessThan(10_000);
    }
    return { link, agent, expectStop };
  }

  it('serve exits with 0 within 10 s if the database hangs from the start', async () => {
    const connected = Promise.withResolvers<void>();
    const server = createServer(() => connected.resolve()).listen(0, '127.0.0.1');
    afterThisTest(async () => void server.close());
    await once(server, 'listening');
    const url = `postgres://x@127.0.0.1:${(server.address() as AddressInfo).port}/x`;
    const { agent, expectStop } = await setUp(url);
    agent.launch();
    await connected.promise;
    await expectStop();
  });

  it('serve exits with 0 if it receives SIGTERM while it is loading', () => {
    const hook = `import { registerHooks } from 'node:module';
      registerHooks({
        resolve(name, context, next) {
          if (name.endsWith('cli.ts')) process.kill(process.pid, 'SIGTERM');
          return next(name, context);
        },
      });`;
    const preload = `data:text/javascript,${encodeURIComponent(hook)}`;
    const { configFile } = createAgent({ accounts: [unlimited('a', 'http://127.0.0.1:1')] });
    const args = ['--import', preload, 'src/main.ts', 'serve', '--config', configFile];
    expect(spawnSync(process.execPath, args, { env: { DELIVERY_TOKEN: 'token' } })).toMatchObject({
      status: 0,
      signal: null,
    });
  });

  it('serve exits with 0 within 10 s if the database hangs while it runs', async () => {
    const { link, agent, expectStop } = await setUp();
    await agent.start();
    await eventually(async () => expect(await agent.value('delivery_up')).toBe(1));
    link.hang();
    await expectStop();
  });
});
