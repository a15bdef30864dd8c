import { scramble as mix } from '../kit/hash.ts';

export type Random = ReturnType<typeof createRandom>;

/** Maps 32-bit numbers one to one. */
const scramble = (number: number) => mix(number) >>> 0;

export function createRandom(seed: number) {
  let position = scramble(seed);
  // A Weyl sequence has a period of 2^32.
  const fraction = (): number => {
    position = (position + 0x9e3779b9) | 0;
    return scramble(position) / 2 ** 32;
  };
  return {
    fraction,
    between: (low: number, high: number): number => low + Math.floor(fraction() * (high - low + 1)),
    /** Draws from an exponential distribution, rounded up to an integer. */
    exponential: (mean: number): number => Math.ceil(-Math.log(1 - fraction()) * mean) || 1,
    chance: (share: number): boolean => fraction() < share,
    pick<T>(list: readonly T[]): T {
      if (list.length === 0) throw new RangeError('nothing to pick from');
      return list[Math.floor(fraction() * list.length)] as T;
    },
  };
}

/** Returns a number from 0 to below 1 that depends only on a seed and a text. */
export function fractionOf(seed: number, text: string): number {
  // FNV-1a has poor low bits, so scramble the result.
  let hash = scramble(seed) ^ 0x811c9dc5;
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return scramble(hash) / 2 ** 32;
}

/** Origin of a message: `p` past, `w` workload, `f` failed workflow run, `c` its failure callback, `r` other run, `t` added by a test. */
export type IdSeries = 'p' | 'w' | 'f' | 'c' | 'r' | 't';

/** Formats a 32-bit number as seven base-36 digits. */
const base36 = (word: number) => word.toString(36).padStart(7, '0');

/** Returns a unique id for a series and number. Deterministic for a seed. */
export function messageId(seed: number, series: IdSeries, number: number): string {
  const first = scramble(number ^ scramble(seed));
  return `msg_${series}${base36(first)}${base36(scramble(first + 1))}${base36(scramble(first + seed))}`;
}
