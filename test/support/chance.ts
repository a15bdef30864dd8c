import { createRandom, type Random } from '../../src/emulator/random.ts';

/**
 * Random numbers for a test with a printed seed, which SEED=… in the environment repeats. Tests with several processes
 * may still vary in order.
 */
export function createChance(): Random {
  const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));
  process.stdout.write(`random numbers of seed ${seed}\n`);
  return createRandom(seed);
}
