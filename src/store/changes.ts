import type { Change } from '../model/change.ts';
import { StoreError } from './errors.ts';
import type { Guard } from './store.ts';

/** Maximum key length in UTF-16 code units. PostgreSQL can index 512 characters of any kind. */
const MAX_KEY_LENGTH = 512;

function invalid(detail: string): never {
  throw new StoreError('invalid', 'the store', detail);
}

/** Throws for lone surrogates, which have no UTF-8 encoding: the text would be read back changed, or collide with another row. */
export function checkText(text: string, what: string): void {
  if (!text.isWellFormed()) invalid(`${what} with a lone surrogate`);
}

/** Checks that a store would read back these changes and the guard's row unchanged. Throws StoreError `invalid`. */
export function checkChanges(account: string, changes: readonly Change[], guard?: Guard): void {
  if (guard) checkChanges(guard.account, [guard]);
  checkText(account, 'an account');
  for (const { key, value } of changes) {
    if (key.length > MAX_KEY_LENGTH) invalid(`a key of ${key.length} characters; the limit is ${MAX_KEY_LENGTH}`);
    checkText(key, 'a key');
    if (value !== null) checkText(value, 'a value');
  }
}

/** Returns the smallest text, by code points, above all texts with this prefix; undefined if no text is above them. */
export function endOfPrefix(prefix: string): string | undefined {
  const points = Array.from(prefix, character => character.codePointAt(0) as number);
  while (points.at(-1) === 0x10ffff) points.pop();
  const last = points.pop();
  if (last === undefined) return undefined;
  // Skips the surrogates U+D800 to U+DFFF, which are not characters.
  return String.fromCodePoint(...points, last === 0xd7ff ? 0xe000 : last + 1);
}

/** Overhead of a row, in characters. */
const ROW_WEIGHT = 200;

export const weightOf = (changes: readonly Change[]): number =>
  changes.reduce((sum, { key, value }) => sum + ROW_WEIGHT + key.length + (value?.length ?? 0), 0);
