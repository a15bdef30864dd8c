import { hash as digestOf } from 'node:crypto';

const lanes = new Uint32Array(2);
const whole = new BigUint64Array(lanes.buffer);

/** MurmurHash3's final mix: every input bit affects every output bit. */
export function scramble(lane: number): number {
  const a = Math.imul(lane ^ (lane >>> 16), 0x85ebca6b);
  const b = Math.imul(a ^ (a >>> 13), 0xc2b2ae35);
  return b ^ (b >>> 16);
}

function join(a: number, b: number): bigint {
  const low = scramble(a ^ Math.imul(b, 0x9e3779b1));
  lanes[0] = low;
  lanes[1] = scramble(b ^ Math.imul(low, 0x85ebca77));
  return whole[0] as bigint;
}

/** Hashes a text to 64 bits. Hashes are stored, so the algorithm must not change. Not resistant to crafted collisions. */
export function hash64(text: string): bigint {
  let a = 0x811c9dc5;
  let b = 0x7feb352d ^ text.length;
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index);
    a = Math.imul(a ^ unit, 0x01000193);
    b = Math.imul((b << 13) | (b >>> 19), 5) ^ Math.imul(unit, 0xcc9e2d51);
  }
  return join(a, b);
}

/** Combines a hash with two whole numbers (0 to 2^53). */
export function extendHash64(hash: bigint, first: number, second: number): bigint {
  whole[0] = hash;
  let a = lanes[0] as number;
  let b = lanes[1] as number;
  for (const number of [first, second]) {
    a = Math.imul(a ^ number, 0x01000193);
    b = Math.imul((b << 13) | (b >>> 19), 5) ^ Math.imul(number ^ (number / 2 ** 32), 0xcc9e2d51);
    a = Math.imul(a ^ (number / 2 ** 32), 0x01000193);
  }
  return join(a, b);
}

/**
 * Returns an id of `digits` hexadecimal digits (at most 64), equal in all processes. It is never all zeros, which is invalid
 * for trace ids.
 */
export function hashedId(parts: readonly (string | number)[], digits: number): string {
  for (let turn = 0; ; turn += 1) {
    const id = digestOf('sha256', JSON.stringify(turn === 0 ? parts : [...parts, turn])).slice(0, digits);
    if (/[^0]/.test(id)) return id;
  }
}
