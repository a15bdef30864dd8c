import { describe, expect, it } from 'vitest';
import { createAgent } from '../support/agent.ts';
import { afterThisTest } from '../support/client.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { atThisLoad, eventually } from '../support/eventually.ts';
import { postgresForTests, postgresIsThere } from '../support/postgres.ts';
import { freePort, requireProgram, startPrometheus } from '../support/prometheus.ts';
import { startTcpLink } from '../support/tcp-link.ts';

const LEADER = 'delivery_watch_leader{schema="delivery_watch"}';

describe.skipIf(!postgresIsThere())('a leader and a standby', () => {
  const postgres = postgresForTests();

  async function setUp(lease = '5s') {
    const emulator = await emulateEmpty({ token: 'token' });
    for (let n = 0; n < 3; n += 1) emulator.state.addDlqEntry();
    const database = await postgres().createDatabase();
    return async function start() {
      const link = await startTcpLink({ host: '127.0.0.1', port: postgres().port });
      afterThisTest(() => link.close());
      const through = new URL(database);
      through.port = String(link.port);
      const port = await freePort();
      const config = {
        server: { listen: `127.0.0.1:${port}`, replicaUrl: `http://127.0.0.1:${port}` },
        store: { kind: 'postgres', url: { env: 'DATABASE_URL' }, lease },
        accounts: [{ name: 'a', baseUrl: emulator.url, token: { env: 'TOKEN' } }],
        collect: { dlq: { every: '1s' } },
      };
      const agent = createAgent(config, { DATABASE_URL: through.href, TOKEN: 'token' });
      await agent.start();
      return { agent, link, port, metrics: () => agent.get('/metrics') };
    };
  }

  it('a leader that was paused for longer than its lease exposes no account series when it continues, and exits with 1', async () => {
    const start = await setUp();
    const first = await start();
    await eventually(async () => expect(await first.metrics()).toMatch(/^delivery_up\{account="a"\} 1$/m));
    expect(await first.metrics()).toContain(`${LEADER} 1`);
    const second = await start();
    expect(await second.metrics()).toContain(`${LEADER} 0`);
    first.agent.process.kill('SIGSTOP');
    await eventually(async () => expect(await second.metrics()).toContain(`${LEADER} 1`));
    // Delays all renewals until the pending scrape has returned.
    first.link.hang();
    const scrape = first.metrics();
    first.agent.process.kill('SIGCONT');
    const text = await scrape;
    expect(text).toContain(`${LEADER} 0`);
    expect(text.split('\n').filter(line => line.includes('account="a"'))).toEqual([]);
    expect(text).toMatch(/^process_resident_memory_bytes \d/m);
    first.link.restore();
    expect(await first.agent.process.ended).toBe(1);
    expect(first.agent.process.stderr()).toContain('another process leads: this one ends');
    // Its supervisor restarts it as a standby.
    await first.agent.start();
    expect(await first.metrics()).toContain(`${LEADER} 0`);
    expect(await second.metrics()).toContain(`${LEADER} 1`);
  });

  it.skipIf(!requireProgram('prometheus'))(
    'Prometheus scrapes both processes, and a rolling update interrupts reading for at most two seconds',
    async () => {
      const start = await setUp('15s');
      const first = await start();
      await eventually(async () => expect(await first.metrics()).toMatch(/^delivery_up\{account="a"\} 1$/m));
      const second = await start();
      const prometheus = await startPrometheus({
        scrapeConfigs: [
          {
            job_name: 'delivery-watch',
            static_configs: [{ targets: [first, second].map(({ port }) => `127.0.0.1:${port}`) }],
          },
        ],
      });
      afterThisTest(() => prometheus.stop());
      const valueNow = async (query: string) => (await prometheus.query(query))[0]?.value;
      await eventually(async () => {
        expect(await valueNow('sum by (schema) (delivery_watch_leader)')).toBe(1);
        expect(await valueNow('count(delivery_watch_leader)')).toBe(2);
        expect(await valueNow('max by (account) (delivery_dlq_messages)')).toBe(3);
      });
      const stoppedAt = performance.now();
      const ending = first.agent.end('SIGTERM');
      await eventually(async () => expect(await second.metrics()).toMatch(/^delivery_up\{account="a"\} 1$/m));
      const gap = performance.now() - stoppedAt;
      expect(await ending).toBe(0);
      process.stdout.write(`reading was interrupted for ${(gap / 1000).toFixed(1)} s\n`);
      expect(gap).toBeLessThan(atThisLoad(2000));
      await first.agent.start();
      await eventually(async () => {
        expect(await valueNow('sum by (schema) (delivery_watch_leader)')).toBe(1);
        expect(await valueNow('max by (account) (delivery_dlq_messages)')).toBe(3);
      });
    },
  );
});
