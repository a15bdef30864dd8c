import type { Change } from '../model/change.ts';
import { StoreError } from './errors.ts';
import type { Guard } from './store.ts';

/** Longest key, in UTF-16 code units as `length` counts them. 512 of any character fit into an index row of every database meant here. */
const LONGEST_KEY = 512;

function invalid(detail: string): never {
  throw new StoreError('invalid', 'the store', detail);
}

/** Half a surrogate pair has no UTF-8: it would come back as another text, or be another row. */
export function checkText(text: string, what: string): void {
  if (!text.isWellFormed()) invalid(`${what} with half a surrogate pair`);
}

/** Throws StoreError `invalid` when a store could not give back exactly these changes, or the row of the guard. */
export function checkChanges(account: string, changes: readonly Change[], guard?: Guard): void {
  if (guard) checkChanges(guard.account, [guard]);
  checkText(account, 'an account');
  for (const { key, value } of changes) {
    if (key.length > LONGEST_KEY) invalid(`a key of ${key.length} characters, ${LONGEST_KEY} is the limit`);
    checkText(key, 'a key');
    if (value !== null) checkText(value, 'a value');
  }
}

/** The least text above every text with this prefix, by code points; undefined if no text is above them. */
export function endOfPrefix(prefix: string): string | undefined {
  const points = Array.from(prefix, character => character.codePointAt(0) as number);
  while (points.at(-1) === 0x10ffff) points.pop();
  const last = points.pop();
  if (last === undefined) return undefined;
  // The surrogates U+D800 to U+DFFF are no characters: behind U+D7FF comes U+E000.
  return String.fromCodePoint(...points, last === 0xd7ff ? 0xe000 : last + 1);
}

/** Cost of a row in addition to its text, as if it were characters. */
const ROW_WEIGHT = 200;

export const weightOf = (changes: readonly Change[]): number =>
  changes.reduce((sum, { key, value }) => sum + ROW_WEIGHT + key.length + (value?.length ?? 0), 0);
