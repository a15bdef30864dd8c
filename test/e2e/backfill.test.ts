import { expect, it } from 'vitest';
import { judgeOutage, loadPrometheus, runOutage } from '../support/outage.ts';
import { requireProgram } from '../support/prometheus.ts';

const MINUTE = 60_000;

const hasPrometheus = requireProgram('promtool') && requireProgram('prometheus');

it.skipIf(!hasPrometheus)('joins what Prometheus scraped before and after an agent was gone', async () => {
  const outage = await runOutage({ count: 3000, gap: 20 * MINUTE, before: MINUTE, after: MINUTE, speed: 40 });
  expect(outage.backfilled).toMatchObject({ code: 0 });
  const prometheus = await loadPrometheus(outage);
  try {
    expect(await judgeOutage(prometheus, outage)).toBeGreaterThan(500);
  } finally {
    await prometheus.stop();
  }
  expect(outage.toldAgain).toEqual([]);
});
