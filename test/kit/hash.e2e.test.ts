import { describe, expect, it } from 'vitest';
import { extendHash64, hash64 } from '../../src/kit/hash.ts';

const DIGITS = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';

/** Formats a number with `width` digits, for use in an id. */
function digits(number: number, width: number): string {
  let text = '';
  for (let rest = number; text.length < width; rest = Math.floor(rest / DIGITS.length)) {
    text = DIGITS.charAt(rest % DIGITS.length) + text;
  }
  return text;
}

/** Creates a reproducible generator of pseudo-random numbers. */
function createChance(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state;
  };
}

const chance = createChance(1);

const KINDS: Record<string, (number: number) => string> = {
  'with consecutive numbers': number => `msg_${number}`,
  'from Unix milliseconds': number => `${1_700_000_000_000 + Math.floor(number / 4)}-${number % 4}`,
  'with different ends': number => `msg_26hZCxZCuWyyTWPmSVBrNC1RADwpgWxPcak2rQD51EMjFMuzcW7qYX${digits(number, 5)}`,
  'with differences far apart': number =>
    `msg_${digits(number % 1000, 3)}WyyTWPmSVBrNC1RADwpgWxPcak2rQD51${digits(Math.floor(number / 1000), 3)}`,
  'with random parts': number => `msg_${digits(number, 4)}${digits(chance(), 6)}${digits(chance(), 6)}`,
};

function collisions(hashes: BigUint64Array): number {
  hashes.sort();
  let same = 0;
  for (let index = 1; index < hashes.length; index += 1) same += Number(hashes[index] === hashes[index - 1]);
  return same;
}

it.each(Object.keys(KINDS))('hash64 has no collisions among a million ids of the kind "%s"', kind => {
  const make = KINDS[kind] as (number: number) => string;
  expect(collisions(BigUint64Array.from({ length: 1_000_000 }, (_, number) => hash64(make(number))))).toBe(0);
});

it('hash64 has no collisions among texts that repeat one character', () => {
  expect(collisions(BigUint64Array.from({ length: 3000 }, (_, length) => hash64('a'.repeat(length))))).toBe(0);
});

it('extendHash64 has no collisions among a million events of a hundred messages', () => {
  const messages = Array.from({ length: 100 }, (_, number) => hash64(`msg_${number}`));
  const hashes = BigUint64Array.from({ length: 1_000_000 }, (_, number) => {
    const time = 1_700_000_000_000 + Math.floor(number / 900) * (number % 2 === 0 ? 1 : 2 ** 32);
    return extendHash64(messages[number % 100] as bigint, Math.floor(number / 100) % 9, time);
  });
  expect(collisions(hashes)).toBe(0);
});

describe('bit distribution', () => {
  const COUNT = 20_000;
  function bitsOf(hashes: readonly bigint[]): number[] {
    const counts: number[] = Array(64).fill(0);
    for (const hash of hashes) {
      const text = hash.toString(2).padStart(64, '0');
      for (let bit = 0; bit < 64; bit += 1) if (text[bit] === '1') (counts[bit] as number) += 1;
    }
    return counts;
  }
  /** Expects that each bit is set in half of the hashes, within five standard deviations. */
  function expectHalf(counts: readonly number[]): void {
    for (const count of counts) expect(Math.abs(count - COUNT / 2)).toBeLessThan(2.5 * Math.sqrt(COUNT));
  }
  const ids = Array.from({ length: COUNT }, (_, number) => `msg_${digits(number, 22)}`);

  it('every bit of a hash is set for about half of the inputs', () => {
    expectHalf(bitsOf(ids.map(hash64)));
    expectHalf(bitsOf(ids.map((id, number) => extendHash64(hash64(id), 4, 1_700_000_000_000 + number))));
  });

  it('changing one character flips every bit of a hash with a probability of about one half', () => {
    expectHalf(bitsOf(ids.map(id => hash64(id) ^ hash64(`${id.slice(0, 10)}x${id.slice(11)}`))));
    expectHalf(bitsOf(ids.map(id => hash64(id) ^ hash64(`${id.slice(0, -1)}0`))));
  });

  it('incrementing a number flips every bit of a hash with a probability of about one half', () => {
    const extended = (add: number) => ids.map((_, number) => extendHash64(hash64('msg_1'), 4, number + add));
    const [before, after] = [extended(0), extended(1)];
    expectHalf(bitsOf(before.map((hash, index) => hash ^ (after[index] as bigint))));
  });
});

// Stored rows contain hashes: if a hash changed, every stored event would be counted again.
it.each([
  ['', '74ac4938b65d0c11'],
  ['a', 'eee73153631ca17d'],
  ['msg_1', 'e962ca150404c5fd'],
  ['msg_26hZCxZCuWyyTWPmSVBrNC1RADwpgWxPcak2rQD51EMjFMuzcW7qYXpPiDyw8Gd', 'f8add300a24f4e11'],
  ['Größe ✓ 𝒳', '9e9150f5ebaa4359'],
])('the hash of %j is stable', (text, hash) => expect(hash64(text).toString(16)).toBe(hash));

it.each([
  [0, 0, 'de6f586d69776c2d'],
  [4, 1_700_000_000_000, '16c8f8a5bf1ca3a'],
  [8, Number.MAX_SAFE_INTEGER, '2f894be17ccf1f31'],
])('the hash extended by %d and %d is stable', (state, time, hash) =>
  expect(extendHash64(hash64('msg_1'), state, time).toString(16)).toBe(hash),
);
