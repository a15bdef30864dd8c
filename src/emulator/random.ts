export type Random = ReturnType<typeof createRandom>;

/** A bijection of the 32-bit numbers (the finaliser of MurmurHash3): distinct numbers stay distinct. */
function scramble(number: number): number {
  let word = number | 0;
  word = Math.imul(word ^ (word >>> 16), 0x85ebca6b);
  word = Math.imul(word ^ (word >>> 13), 0xc2b2ae35);
  return (word ^ (word >>> 16)) >>> 0;
}

export function createRandom(seed: number) {
  let position = scramble(seed);
  // Weyl steps through all 32-bit numbers, each scrambled: a period of 2^32 draws.
  const fraction = (): number => {
    position = (position + 0x9e3779b9) | 0;
    return scramble(position) / 2 ** 32;
  };
  return {
    fraction,
    between: (low: number, high: number): number => low + Math.floor(fraction() * (high - low + 1)),
    /** Exponentially distributed, rounded up to a whole number above 0. */
    exponential: (mean: number): number => Math.ceil(-Math.log(1 - fraction()) * mean) || 1,
    chance: (share: number): boolean => fraction() < share,
    pick<T>(list: readonly T[]): T {
      if (list.length === 0) throw new RangeError('nothing to pick from');
      return list[Math.floor(fraction() * list.length)] as T;
    },
  };
}

/** At least 0, below 1: decided by the seed and this text alone, however often one asks. */
export function fractionOf(seed: number, text: string): number {
  // FNV-1a; its low bits alone are poor, so the end is scrambled.
  let hash = scramble(seed) ^ 0x811c9dc5;
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return scramble(hash) / 2 ** 32;
}

/** Origin of a message: `p` past, `w` workload, `f` failed workflow run, `c` its failure callback, `t` added by a test. */
export type Series = 'p' | 'w' | 'f' | 'c' | 't';

/** Every two digits of base 36. */
const PAIRS = Array.from({ length: 36 ** 2 }, (_, value) => value.toString(36).padStart(2, '0'));

/** The seven digits of a 32-bit number in base 36: several times as fast as `toString(36)`, which is meant for fractions, too. */
function base36(word: number): string {
  const high = Math.floor(word / 36 ** 4);
  const low = word % 36 ** 4;
  return `${Math.floor(high / 36 ** 2)}${PAIRS[high % 36 ** 2]}${PAIRS[Math.floor(low / 36 ** 2)]}${PAIRS[low % 36 ** 2]}`;
}

/** The identifier of message `number` of a series; distinct for distinct (series, number), and the same for the same seed. */
export function messageId(seed: number, series: Series, number: number): string {
  const first = scramble(number ^ scramble(seed));
  return `msg_${series}${base36(first)}${base36(scramble(first + 1))}${base36(scramble(first + seed))}`;
}
