import { expect, test } from 'vitest';
import { memoize } from '../../src/kit/memo.ts';

test('memoize computes the result for each text once, even if it is false, until the cache is full', () => {
  const computed: string[] = [];
  const isShort = memoize(text => computed.push(text) > 0 && text.length < 2, 200);
  const texts = ['a', 'long', 'a', 'long'];
  expect(texts.map(isShort)).toEqual([true, false, true, false]);
  expect(computed).toEqual(['a', 'long']);
  // With b, the cache has a size of 198 characters; c exceeds the limit and empties it.
  for (const text of ['b', 'c', 'a', 'c']) isShort(text);
  expect(computed).toEqual(['a', 'long', 'b', 'c', 'a']);
});
