import { createRandom, type Random } from '../../src/emulator/random.ts';

/**
 * Creates random numbers for a test and prints their seed; SEED=… in the environment repeats them. In tests with
 * several processes the order of events may still vary.
 */
export function createChance(): Random {
  const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));
  process.stdout.write(`random numbers of seed ${seed}\n`);
  return createRandom(seed);
}
