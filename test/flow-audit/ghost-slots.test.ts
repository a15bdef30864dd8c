import { expect, test } from 'vitest';
import { leakCourse } from './ghost-slots.ts';

test('leaked slots are named within ten minutes', async () => {
  const n = Number(process.env.RUNS ?? 12);
  const t0 = process.cpuUsage();
  const waits: number[] = [];
  for (let seed = 1; seed <= n; seed += 1) {
    const found = await leakCourse(seed);
    if (found.waits === undefined || found.waits > 600_000 || found.wrong > 0) console.log('seed', seed, found);
    waits.push(found.waits ?? Number.POSITIVE_INFINITY);
  }
  waits.sort((a, b) => a - b);
  const cpu = process.cpuUsage(t0).user / 1e6;
  console.log(n, 'runs', cpu, 's', 'median', waits[n >> 1], 'p90', waits[Math.floor(n * 0.9)], 'max', waits.at(-1));
  expect(waits.at(-1)).toBeLessThanOrEqual(600_000);
});
