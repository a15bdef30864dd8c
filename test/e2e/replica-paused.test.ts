import { describe, expect, it } from 'vitest';
import { createAgent } from '../support/agent.ts';
import { afterThisTest } from '../support/client.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { postgresForTests, postgresIsThere } from '../support/postgres.ts';
import { startTcpLink } from '../support/tcp-link.ts';

const LEADER = 'delivery_watch_leader{account="a"}';

describe.skipIf(!postgresIsThere())('paused replicas', () => {
  const postgres = postgresForTests();

  async function startReplica(database: string, url: string, token: string) {
    const link = await startTcpLink({ host: '127.0.0.1', port: postgres().port });
    afterThisTest(() => link.close());
    const through = new URL(database);
    through.port = String(link.port);
    const config = {
      store: { kind: 'postgres', url: { env: 'DATABASE_URL' }, lease: '5s' },
      accounts: [{ name: 'a', baseUrl: url, token: { env: 'TOKEN' } }],
      collect: { dlq: { every: '1s' } },
    };
    const agent = createAgent(config, { DATABASE_URL: through.href, TOKEN: token });
    await agent.start();
    return { agent, link, metrics: () => agent.get('/metrics') };
  }

  it('a replica that was paused for longer than its lease neither claims the account nor exposes its series before the next renewal', async () => {
    const emulator = await emulateEmpty({ token: 'token' });
    const database = await postgres().createDatabase();
    const first = await startReplica(database, emulator.url, 'token');
    await eventually(async () => expect(await first.metrics()).toMatch(/^delivery_up\{account="a"\} 1$/m));
    // On a busy machine the process may have lost its lease in the meantime.
    await eventually(async () => expect(await first.metrics()).toContain(`${LEADER} 1`));
    const second = await startReplica(database, emulator.url, 'token');
    first.agent.process.kill('SIGSTOP');
    await eventually(async () => expect(await second.metrics()).toContain(`${LEADER} 1`));
    // Delays all renewals until the pending scrape has returned.
    first.link.hang();
    const scrape = first.metrics();
    first.agent.process.kill('SIGCONT');
    const text = await scrape;
    expect(text).toContain(`${LEADER} 0`);
    expect(text.split('\n').filter(line => line.includes('account="a"'))).toEqual([`${LEADER} 0`]);
    expect(text).toMatch(/^process_resident_memory_bytes \d/m);
    first.link.restore();
    await eventually(async () => expect(first.agent.process.stderr()).toContain('accounts move between replicas'));
    // The second replica also has the agent-wide lease. It returns one of the two leases to the first replica, soon or later.
    await eventually(async () => {
      const texts = await Promise.all([first.metrics(), second.metrics()]);
      expect(texts.filter(text => text.includes(`${LEADER} 1`)).length, texts.join()).toBe(1);
    });
  });
});
