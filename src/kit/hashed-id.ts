import { createHash } from 'node:crypto';

/**
 * So many hexadecimal digits (at most 64) that stand for `parts`, the same in every process; never zeros alone, which
 * trace and span ids must not be.
 */
export function hashedId(parts: readonly (string | number)[], digits: number): string {
  for (let turn = 0; ; turn += 1) {
    const id = createHash('sha256')
      .update(JSON.stringify(turn === 0 ? parts : [...parts, turn]))
      .digest('hex')
      .slice(0, digits);
    if (/[^0]/.test(id)) return id;
  }
}
