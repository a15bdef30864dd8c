/**
 * `node test/model/run.ts [--runs 200000] [--seed N] [--path P]`: runs simulated lives of the agent, each in a separate world.
 * Exits with status 1 if a check fails.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import fc from 'fast-check';
import { LIVES, type Life } from './steps.ts';
import { createTally, type Tally } from './tally.ts';
import { createTime, withTimersOn } from './time.ts';
import { createWorld } from './world.ts';

/** Runs one life until its first violation, or to its end if `toTheEnd`. Returns the violations. */
function live(one: Life, stopFile: string, tally: Tally, toTheEnd: boolean): Promise<readonly string[]> {
  const time = createTime();
  return withTimersOn(time, async () => {
    const world = await createWorld(one, time, stopFile, tally);
    for (const step of one.steps) {
      await world.happen(step);
      if (world.wrong.length > 0 && !toTheEnd) break;
    }
    await world.end();
    return [...new Set(world.wrong)];
  });
}

/** Calls `work` with the path of a stop file in a new folder. */
async function withStopFile<T>(work: (stopFile: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'model-'));
  try {
    return await work(join(folder, 'STOP'));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

export interface Outcome {
  /** The smallest failing life and the command that reproduces it; undefined if all lives passed. */
  readonly failure: string | undefined;
  readonly tally: Tally;
  readonly seed: number;
}

export async function runLives(options: {
  runs: number;
  seed: number;
  path?: string | undefined;
  /** Kind of lives to run. Default: both kinds. */
  lives?: keyof typeof LIVES;
  onRun?: (runs: number) => void;
}): Promise<Outcome> {
  const { runs, seed, path, lives = 'both', onRun } = options;
  const tally = createTally();
  let count = 0;
  return withStopFile(async stopFile => {
    const property = fc.asyncProperty(LIVES[lives] as fc.Arbitrary<Life>, async one => {
      count += 1;
      onRun?.(count);
      const wrong = await live(one, stopFile, tally, false);
      if (wrong.length > 0) throw new Error(wrong.join('\n'));
    });
    const details = await fc.check(property, { numRuns: runs, seed, ...(path === undefined ? {} : { path }) });
    const failure = details.failed ? `${fc.defaultReportMessage(details)}\n\n${details.errorInstance}` : undefined;
    return { failure, tally, seed };
  });
}

/**
 * Counts violations by kind in `runs` lives, without shrinking. Reports the first failing life for each kind. `only`: index of
 * the only life to run.
 */
function survey(runs: number, seed: number, lives: keyof typeof LIVES, only: number | undefined): Promise<string> {
  return withStopFile(async stopFile => {
    const kinds = new Map<string, { lives: number; first: string }>();
    const tally = createTally();
    for (const [index, one] of fc.sample(LIVES[lives] as fc.Arbitrary<Life>, { numRuns: runs, seed }).entries()) {
      if (only !== undefined && index !== only) continue;
      const wrong = new Map<string, string>();
      for (const what of await live(one, stopFile, tally, true)) {
        const kind = what.replace(/^at [\d.]+ s: /, '').replace(/[\d.]+/g, '#');
        if (!wrong.has(kind)) wrong.set(kind, `life ${index}, ${what}`);
      }
      for (const [kind, first] of wrong)
        kinds.set(kind, { lives: (kinds.get(kind)?.lives ?? 0) + 1, first: kinds.get(kind)?.first ?? first });
    }
    const sorted = [...kinds].sort(([, a], [, b]) => b.lives - a.lives);
    return [
      tally.text(),
      ...sorted.map(([kind, { lives, first }]) => `${lives} lives: ${kind}\n        (${first})`),
    ].join('\n');
  });
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      runs: { type: 'string', default: '2000' },
      seed: { type: 'string' },
      path: { type: 'string' },
      survey: { type: 'boolean', default: false },
      life: { type: 'string' },
      lives: { type: 'string', default: 'both' },
    },
  });
  const runs = Number(values.runs);
  const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
  if (!Number.isInteger(runs) || !Number.isInteger(seed)) throw new Error('--runs and --seed must be integers');
  const { lives } = values;
  if (lives !== 'ordinary' && lives !== 'operated' && lives !== 'both')
    throw new Error('--lives must be ordinary, operated or both');
  const print = (text: string) => void process.stdout.write(`${text}\n`);
  print(`seed ${seed}, ${runs} runs`);
  if (values.survey) {
    print(await survey(runs, seed, lives, values.life === undefined ? undefined : Number(values.life)));
    return 0;
  }
  const start = performance.now();
  const { failure, tally } = await runLives({
    runs,
    seed,
    path: values.path,
    lives,
    onRun: count => {
      if (count % 10_000 === 0) print(`${count} runs, ${Math.round((performance.now() - start) / 1000)} s`);
    },
  });
  print(tally.text());
  const took = performance.now() - start;
  print(
    failure ??
      `all ${runs} runs passed; seed ${seed}, ${(took / 1000).toFixed(1)} s, ${(took / runs).toFixed(2)} ms a run`,
  );
  return failure === undefined ? 0 : 1;
}

if (import.meta.main) process.exitCode = await main();
