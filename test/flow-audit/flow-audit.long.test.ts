import { expect, test } from 'vitest';
import { createAuditedService, keyed } from '../support/audited-service.ts';
import { drainCourse } from './drain.ts';
import { leakCourse } from './ghost-slots.ts';
import { healthyHours } from './healthy.ts';

const MINUTE = 60_000;
/** Of all runs: CI has no time for all of them each time. */
const SHARE = Number(process.env.AUDIT_SHARE ?? 1);
const RUNS = 1000 * SHARE;
const HOURS = 4;
const SEEDS = 100 * SHARE;

const print = (line: string) => process.stdout.write(`${line}\n`);
const at = (sorted: readonly number[], share: number) => sorted[Math.floor((sorted.length - 1) * share)] as number;

test(`slots that leak are named within ten minutes, ${RUNS} times`, { timeout: 1_800_000 }, async () => {
  const waits: number[] = [];
  for (let seed = 1; seed <= RUNS; seed += 1) {
    const found = await leakCourse(seed);
    expect(found.wrong, `seed ${seed}: a healthy key, or more slots than leaked`).toBe(0);
    waits.push(found.waits ?? Number.POSITIVE_INFINITY);
    expect(waits.at(-1), `seed ${seed}`).toBeLessThanOrEqual(10 * MINUTE);
  }
  waits.sort((a, b) => a - b);
  const minutes = (share: number) => (at(waits, share) / MINUTE).toFixed(1);
  print(
    `ghost slots: named in ${waits.length} of ${RUNS} runs, in ${minutes(0.5)} min at the median, ${minutes(0.99)} at p99, ${minutes(1)} at most`,
  );
});

test(`no key in good health is said to have ghost slots in ${10_000 * SHARE} hours`, {
  timeout: 1_800_000,
}, async () => {
  const states = new Map<string, number>();
  let keyHours = 0;
  let reads = 0;
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    const found = await healthyHours(seed, HOURS);
    expect(found.wrong.slice(0, 3), `seed ${seed}`).toEqual([]);
    keyHours += found.keyHours;
    for (const [state, count] of found.states) {
      states.set(state, (states.get(state) ?? 0) + count);
      reads += count;
    }
  }
  expect(keyHours).toBeGreaterThanOrEqual(10_000 * SHARE);
  print(`healthy: 0 ghost slots in ${keyHours} key-hours; of ${reads} verdicts`);
  for (const [state, count] of [...states].sort(([, a], [, b]) => b - a))
    print(`  ${state.padEnd(32)} ${((100 * count) / reads).toFixed(2)} %`);
});

test('the time to drain that is shown is right within a quarter, nine times of ten', { timeout: 600_000 }, async () => {
  const all: number[] = [];
  for (let seed = 1; seed <= 200 * SHARE; seed += 1) {
    const found = await drainCourse(seed);
    all.push(...found.ratios.map(ratio => Math.abs(ratio - 1)));
  }
  all.sort((a, b) => a - b);
  const percent = (share: number) => `${(100 * at(all, share)).toFixed(0)} %`;
  print(
    `time to drain: shown ${all.length} times; off by ${percent(0.5)} at the median, ${percent(0.9)} at p90, ${percent(1)} at most`,
  );
  expect(all.length).toBeGreaterThan(500 * SHARE);
  expect(at(all, 0.9)).toBeLessThan(0.25);
});

test('slots that leaked before the log was followed are named when no attempt can run in them any more', async () => {
  const destinations = [
    keyed('key', { parallelism: 2 }, { everyMs: 60_000, takesMs: 90_000 }),
    keyed('busy', { parallelism: 20 }, { everyMs: 30_000, takesMs: 1000 }),
  ];
  const service = createAuditedService({ seed: 7, scenario: 'neglected', destinations });
  service.failUntil(service.now() + 20 * MINUTE);
  await service.advance(5 * MINUTE);
  service.state.leakSlots('key', 2);
  await service.advance(11 * 60 * MINUTE);
  expect(service.audited('key')).toMatchObject({ state: 'unknown', reason: 'began_before' });
  await service.advance(90 * MINUTE);
  expect(service.audited('key')).toMatchObject({ state: 'ghost_slots', ghosts: 2 });
});
