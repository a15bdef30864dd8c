import { describe, expect, it } from 'vitest';
import { judgeOutage, loadPrometheus, runOutage } from '../support/outage.ts';
import { postgresForTests, postgresIsThere } from '../support/postgres.ts';
import { requireProgram } from '../support/prometheus.ts';

const MINUTE = 60_000;

const hasPrograms = requireProgram('promtool') && requireProgram('prometheus') && postgresIsThere();

describe.skipIf(!hasPrograms)('replicas on PostgreSQL', () => {
  const postgres = postgresForTests();

  it('are killed, both of them: what happened meanwhile is made good from the store that they shared', {
    timeout: 300_000,
  }, async () => {
    const url = await postgres().createDatabase();
    const database = new URL(url).pathname.slice(1);
    const outage = await runOutage({
      count: 30_000,
      gap: 40 * MINUTE,
      before: 2 * MINUTE,
      after: 2 * MINUTE,
      speed: 10,
      accounts: ['a', 'b'],
      shared: {
        config: { kind: 'postgres', url: { env: 'DATABASE_URL' }, lease: '5s' },
        env: { DATABASE_URL: url },
        async waiting() {
          const [found] = await postgres().query(
            "SELECT count(*)::int AS n FROM delivery_watch.rows WHERE key LIKE 'alerts/outbox/%' OR key LIKE 'alerts/grouped/%'",
            database,
          );
          return Number(found?.n);
        },
      },
    });
    const { code, stderr } = outage.backfilled;
    expect(code, stderr).toBe(0);
    const prometheus = await loadPrometheus(outage);
    try {
      const compared = await judgeOutage(prometheus, outage);
      expect(compared).toBeGreaterThan(2 * 500);
      process.stdout.write(`two replicas: ${compared} one-minute increases by PromQL as the log has them\n${stderr}`);
    } finally {
      await prometheus.stop();
    }
    expect(outage.toldAgain).toEqual([]);
  });
});
