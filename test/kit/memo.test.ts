import { expect, test } from 'vitest';
import { memoize } from '../../src/kit/memo.ts';

test('memoize finds each text once, false ones too, until there are too many', () => {
  const asked: string[] = [];
  const isShort = memoize(text => asked.push(text) > 0 && text.length < 2, 200);
  const texts = ['a', 'long', 'a', 'long'];
  expect(texts.map(isShort)).toEqual([true, false, true, false]);
  expect(asked).toEqual(['a', 'long']);
  // With b they weigh 198 characters; c is too much.
  for (const text of ['b', 'c', 'a', 'c']) isShort(text);
  expect(asked).toEqual(['a', 'long', 'b', 'c', 'a']);
});
