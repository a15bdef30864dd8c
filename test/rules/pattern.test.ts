import { expect, it } from 'vitest';
import { faultOfPattern, matchesWhole } from '../../src/rules/pattern.ts';

it.each([
  'a',
  'https?://[^/]+/jobs/.*\\.json',
  '(a|b)c*',
  '(?<x>a+)b',
  '[(+*]+',
  '\\(a+\\)*',
  '(a{3}){2}',
  '',
  '(a+)?b',
])('takes %s', pattern => expect(faultOfPattern(pattern)).toBeUndefined());

it.each(['(', 'a)|(b', '\\y', 'a**', '['])('%s is no regular expression', pattern =>
  expect(faultOfPattern(pattern)).toMatch(/^must be a regular expression/),
);

it.each([
  '(a+)+',
  '(a|a)*',
  '(a?)*',
  '((a+)b){2,}',
  '(?:a*){9}',
  'a*a*a*a*',
  '.*a?a?a?a?a?a?a?a?a?a?a?a?',
  'a{1,500}a{1,500}a{1,500}a{1,500}',
  '(?=a)b',
  '(?<!a)b',
  '(a)\\1',
  '(?<x>a)\\k<x>',
  '(?i:a+)*',
])('%s might take for ever', pattern => expect(faultOfPattern(pattern)).toMatch(/^must match in bounded time/));

it('refuses long patterns', () => expect(faultOfPattern('a'.repeat(501))).toBe('must have at most 500 characters'));

it('matches the whole text, line breaks and all, and does not try what is too long', () => {
  expect(matchesWhole('a|b', 'ab')).toBe(false);
  expect(matchesWhole('a|b', 'b')).toBe(true);
  expect(matchesWhole('a.b', 'a\nb')).toBe(true);
  expect(matchesWhole('^a$', 'a\n')).toBe(false);
  expect(matchesWhole('a*', 'a'.repeat(513))).toBeUndefined();
});
