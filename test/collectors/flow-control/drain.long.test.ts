import { expect, test } from 'vitest';
import { runs } from '../../support/runs.ts';
import { drainCourse } from './drain.ts';

const SEEDS = runs(200);

const at = (sorted: readonly number[], share: number) => sorted[Math.floor((sorted.length - 1) * share)] as number;

test('estimates the time to drain to within 25 % in nine of ten cases', { timeout: 600_000 }, async () => {
  const all: number[] = [];
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    const ratios = await drainCourse(seed);
    all.push(...ratios.map(ratio => Math.abs(ratio - 1)));
  }
  all.sort((a, b) => a - b);
  const percent = (share: number) => `${(100 * at(all, share)).toFixed(0)} %`;
  process.stdout.write(
    `time to drain: shown ${all.length} times; off by ${percent(0.5)} at the median, ${percent(0.9)} at p90, ${percent(1)} at most\n`,
  );
  expect(all.length).toBeGreaterThan(SEEDS);
  expect(at(all, 0.9)).toBeLessThan(0.25);
});
