import { expect, test } from 'vitest';
import type { Dialect } from '../../../src/emulator/dialect.ts';
import { runs } from '../../support/runs.ts';
import { drainCourse } from './drain.ts';
import { leakCourse } from './ghost-slots.ts';
import { healthyHours } from './healthy.ts';

const MINUTE = 60_000;
/** Fraction of the runs to execute, because CI has no time for all of them. */
const SHARE = Number(process.env.AUDIT_SHARE ?? runs(1, 0.1));
const RUNS = 1000 * SHARE;
const HOURS = 4;
const SEEDS = 100 * SHARE;

const print = (line: string) => process.stdout.write(`${line}\n`);
const at = (sorted: readonly number[], share: number) => sorted[Math.floor((sorted.length - 1) * share)] as number;

/**
 * Returns the fraction of runs in which the leak was detected within twenty minutes of waiting, and the longest
 * detection time (minutes).
 */
async function leaks(runs: number, failing: Parameters<typeof leakCourse>[1], title: string) {
  const waits: number[] = [];
  for (let seed = 1; seed <= runs; seed += 1) {
    const { wrong, waits: wait } = await leakCourse(seed, failing);
    expect(wrong, `seed ${seed}: a healthy key, or more slots than leaked`).toBe(0);
    if (wait !== undefined) waits.push(wait / MINUTE);
  }
  waits.sort((a, b) => a - b);
  const [median, p99, max] = [at(waits, 0.5), at(waits, 0.99), at(waits, 1)].map(minutes => minutes.toFixed(1));
  print(
    `${title}: named in ${waits.length} of ${runs} runs, in ${median} min at the median, ${p99} at p99, ${max} at most`,
  );
  return { share: waits.length / runs, max: at(waits, 1) };
}

async function healthy(seeds: number, retrySlot: Dialect['retrySlot'], title: string): Promise<number> {
  const states = new Map<string, number>();
  let keyHours = 0;
  let reads = 0;
  for (let seed = 1; seed <= seeds; seed += 1) {
    const found = await healthyHours(seed, HOURS, retrySlot);
    expect(found.wrong.slice(0, 3), `seed ${seed}`).toEqual([]);
    keyHours += found.keyHours;
    for (const [state, count] of found.states) {
      states.set(state, (states.get(state) ?? 0) + count);
      reads += count;
    }
  }
  print(`${title}: 0 ghost slots in ${keyHours} key-hours; of ${reads} verdicts`);
  for (const [state, count] of [...states].sort(([, a], [, b]) => b - a))
    print(`  ${state.padEnd(32)} ${((100 * count) / reads).toFixed(2)} %`);
  return keyHours;
}

test(`detects leaked slots within ten minutes in ${RUNS} runs`, { timeout: 1_800_000 }, async () => {
  const { share, max } = await leaks(RUNS, {}, 'ghost slots');
  expect(share).toBe(1);
  expect(max).toBeLessThanOrEqual(10);
});

test.each(['released', 'kept'] as const)(
  'detects some leaks without overcounting if attempts fail and slots of waiting retries are %s',
  { timeout: 1_800_000 },
  async retrySlot => {
    const failing = { retrySlot, flaky: 0.1, maxRetries: 2 };
    const { share } = await leaks(RUNS / 5, failing, `ghost slots, retries fail, slots ${retrySlot}`);
    expect(share).toBeGreaterThan(0);
  },
);

test(`reports no ghost slots on healthy keys in ${10_000 * SHARE} key hours`, {
  timeout: 1_800_000,
}, async () => {
  expect(await healthy(SEEDS, 'released', 'healthy')).toBeGreaterThanOrEqual(10_000 * SHARE);
});

test(`reports no ghost slots if waiting retries keep their slots, in ${4000 * SHARE} key hours`, {
  timeout: 1_800_000,
}, async () => {
  const keyHours = await healthy(0.4 * SEEDS, 'kept', 'healthy, retries keep their slots');
  expect(keyHours).toBeGreaterThanOrEqual(4000 * SHARE);
});

test(`reports no ghost slots if slots are kept only during short waits for retries, in ${4000 * SHARE} key hours`, {
  timeout: 1_800_000,
}, async () => {
  const keyHours = await healthy(0.4 * SEEDS, 'kept-briefly', 'healthy, retries keep the slots of short waits');
  expect(keyHours).toBeGreaterThanOrEqual(4000 * SHARE);
});

test('estimates the time to drain to within 25 % in nine of ten cases', { timeout: 600_000 }, async () => {
  const all: number[] = [];
  for (let seed = 1; seed <= 200 * SHARE; seed += 1) {
    const ratios = await drainCourse(seed);
    all.push(...ratios.map(ratio => Math.abs(ratio - 1)));
  }
  all.sort((a, b) => a - b);
  const percent = (share: number) => `${(100 * at(all, share)).toFixed(0)} %`;
  print(
    `time to drain: shown ${all.length} times; off by ${percent(0.5)} at the median, ${percent(0.9)} at p90, ${percent(1)} at most`,
  );
  expect(all.length).toBeGreaterThan(500 * SHARE);
  expect(at(all, 0.9)).toBeLessThan(0.25);
});
