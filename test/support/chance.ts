import { createRandom, type Random } from '../../src/emulator/random.ts';

/**
 * Random numbers for a test, which says their seed: SEED=… in the environment brings the same ones again. Where processes take
 * part, the same numbers still meet another order of things.
 */
export function createChance(): Random {
  const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));
  process.stdout.write(`random numbers of seed ${seed}\n`);
  return createRandom(seed);
}
