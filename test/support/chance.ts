import { createRandom, type Random } from '../../src/emulator/random.ts';

/**
 * Creates a random number generator for a test and prints its seed. SEED=… in the environment repeats the numbers. In tests
 * with several processes, the order of events may still vary.
 */
export function createChance(): Random {
  const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));
  process.stdout.write(`random numbers of seed ${seed}\n`);
  return createRandom(seed);
}
