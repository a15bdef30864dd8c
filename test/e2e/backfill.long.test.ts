import { expect, it } from 'vitest';
import { judgeOutage, loadPrometheus, runOutage } from '../support/outage.ts';
import { requireProgram } from '../support/prometheus.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

const hasPrometheus = requireProgram('promtool') && requireProgram('prometheus');

it.skipIf(!hasPrometheus)(
  'makes good six hours without an agent, under a million events, ten minutes after its start',
  {
    timeout: 1_200_000,
  },
  async () => {
    const outage = await runOutage({
      count: 1_130_000,
      gap: 6 * HOUR,
      before: 2 * MINUTE,
      after: 10 * MINUTE,
      speed: 10,
    });
    const { code, stderr } = outage.backfilled;
    expect(code, stderr).toBe(0);
    const [, events, requests, least] = (
      /(\d+) events read with (\d+) requests \(at least (\d+)\)/.exec(stderr) ?? []
    ).map(Number);
    expect(events).toBeGreaterThan(1_000_000);
    expect(requests).toBeLessThanOrEqual((least ?? 0) * 1.05);
    const prometheus = await loadPrometheus(outage);
    try {
      const compared = await judgeOutage(prometheus, outage);
      expect(compared).toBeGreaterThan(10_000);
      process.stdout.write(
        `${events} events: ${compared} one-minute increases by PromQL as the log has them; ${requests} requests, ${least} at least\n`,
      );
    } finally {
      await prometheus.stop();
    }
    expect(outage.toldAgain).toEqual([]);
  },
);
