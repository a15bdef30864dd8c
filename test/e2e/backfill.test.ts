import { expect, it } from 'vitest';
import { backfillPast, checkPast, loadPrometheus } from '../support/past-log.ts';
import { requireProgram } from '../support/prometheus.ts';

const MINUTE = 60_000;

const hasPrometheus = requireProgram('promtool') && requireProgram('prometheus');

it.skipIf(!hasPrometheus)('backfill loads each minute of the event log into Prometheus', async () => {
  const past = await backfillPast({ count: 3000, span: 20 * MINUTE });
  expect(past.backfilled).toMatchObject({ code: 0 });
  const prometheus = await loadPrometheus(past);
  try {
    expect(await checkPast(prometheus, past)).toBeGreaterThan(500);
  } finally {
    await prometheus.stop();
  }
});
