import { expect, test } from 'vitest';
import { healthyHours } from './healthy.ts';

test('healthy', async () => {
  const n = Number(process.env.RUNS ?? 3);
  const t0 = process.cpuUsage();
  const all = new Map<string, number>();
  let wrong = 0, hours = 0;
  for (let seed = Number(process.env.FROM ?? 1); seed < Number(process.env.FROM ?? 1) + n; seed += 1) {
    const found = await healthyHours(seed, 4);
    hours += found.keyHours;
    if (found.wrong.length) { wrong += 1; console.log(found.wrong.length, found.wrong.slice(0, 3)); }
    for (const [k, v] of found.states) all.set(k, (all.get(k) ?? 0) + v);
  }
  console.log(hours, 'key-hours', process.cpuUsage(t0).user / 1e6, 's wrong', wrong, Object.fromEntries(all));
  expect(wrong).toBe(0);
});
