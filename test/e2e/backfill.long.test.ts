import { expect, it } from 'vitest';
import { backfillPast, checkPast, loadPrometheus } from '../support/past-log.ts';
import { requireProgram } from '../support/prometheus.ts';

const HOUR = 3_600_000;

const hasPrometheus = requireProgram('promtool') && requireProgram('prometheus');

it.skipIf(!hasPrometheus)('backfill loads six hours with a million events', { timeout: 1_200_000 }, async () => {
  const past = await backfillPast({ count: 1_050_000, span: 6 * HOUR });
  const { code, stderr } = past.backfilled;
  expect(code, stderr).toBe(0);
  const counts = /(\d+) events read with (\d+) requests \(at least (\d+)\)/.exec(stderr.replaceAll(',', ''));
  const [, events, requests, least] = (counts ?? []).map(Number);
  expect(events).toBeGreaterThan(1_000_000);
  expect(requests).toBeLessThanOrEqual((least ?? 0) * 1.05);
  const prometheus = await loadPrometheus(past);
  try {
    const compared = await checkPast(prometheus, past);
    expect(compared).toBeGreaterThan(10_000);
    process.stdout.write(
      `${events} events: ${compared} one-minute increases by PromQL as the log has them; ${requests} requests, ${least} at least\n`,
    );
  } finally {
    await prometheus.stop();
  }
});
