import fc from 'fast-check';
import { RE2JS } from 're2js';
import { describe, expect, it, vi } from 'vitest';
import { createPattern, patternError } from '../../src/auto-cancel/conditions.ts';

const DIALECT = 'must be a Prometheus regular expression (RE2: no lookaround, no backreferences)';

it.each([
  'a',
  'https?://[^/]+/jobs/.*\\.json',
  '(?i:night)ly',
  '(?P<x>a+)b',
  '[[:alpha:]]+',
  '\\pL+',
  '',
  // Patterns that take exponential or polynomial time in a backtracking engine.
  '(a+)+',
  '(a|a)*',
  '.*a.*a.*a.*b',
  '(?:a?){500}a{500}',
])('the pattern %s is accepted', pattern => expect(patternError(pattern)).toBeUndefined());

it.each([
  ['(', 'missing closing )'],
  ['a)|(b', 'unexpected )'],
  ['\\y', 'invalid escape sequence'],
  ['a**', 'invalid nested repetition operator'],
  ['[', 'missing closing ]'],
  ['(?=a)b', 'invalid or unsupported Perl syntax'],
  ['(a)\\1', 'invalid escape sequence'],
  ['(a{1000}){1000}', 'invalid repeat count'],
  // The error message does not quote the pattern.
  ['[canary', 'missing closing ]'],
])('the pattern %s is rejected: %s', (pattern, why) => expect(patternError(pattern)).toBe(`${DIALECT}: ${why}`));

it('a pattern must match the complete text, including line breaks, and the result for overlong texts is unknown', () => {
  const matches = (pattern: string, text: string) => createPattern(pattern).matches(text);
  expect(matches('a|b', 'ab')).toBe(false);
  expect(matches('a|b', 'b')).toBe(true);
  expect(matches('a|ab', 'ab')).toBe(true);
  expect(matches('a.b', 'a\nb')).toBe(true);
  expect(matches('^a$', 'a\n')).toBe(false);
  expect(matches('(?m)a$', 'a\nb')).toBe(false);
  expect(matches('', '')).toBe(true);
  expect(matches('a*', 'a'.repeat(8192))).toBe(true);
  expect(matches('a*', 'a'.repeat(8193))).toBeUndefined();
});

it('a pattern is printed as its source text', () => {
  const pattern = createPattern('a+');
  expect(`${pattern}`).toBe('a+');
  expect(JSON.stringify({ matches: pattern })).toBe('{"matches":"a+"}');
});

/** Patterns with the same meaning in RE2 and JavaScript. */
const { common } = fc.letrec<{ common: string; piece: string }>(tie => ({
  piece: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom('a', 'b', 'é', '😀', '.', '\\.', '[ab]', '[^a]', '\\d', '\\n'),
    fc
      .tuple(fc.constantFrom('a', '.', '[ab]'), fc.constantFrom('*', '+', '?', '{2}', '{1,3}', '*?'))
      .map(x => x.join('')),
    tie('common').map(inner => `(?:${inner})`),
    fc.tuple(tie('common'), fc.constantFrom('*', '+', '?', '{2}')).map(([inner, times]) => `(${inner})${times}`),
  ),
  common: fc.oneof(
    { depthSize: 'small' },
    fc.array(tie('piece'), { maxLength: 4 }).map(pieces => pieces.join('')),
    fc.tuple(tie('piece'), tie('piece')).map(([one, other]) => `${one}|${other}`),
  ),
}));
const text = fc.array(fc.constantFrom('a', 'b', 'é', '😀', '.', '1', '\n'), { maxLength: 12 }).map(all => all.join(''));

it('patterns match the same texts as JavaScript’s regular expressions', () => {
  fc.assert(
    fc.property(common, fc.array(text, { maxLength: 6 }), (source, texts) => {
      const pattern = createPattern(source);
      const same = new RegExp(`^(?:${source})$`, 'su');
      // Test each text twice, because results are cached.
      for (const each of [...texts, ...texts]) expect([each, pattern.matches(each)]).toEqual([each, same.test(each)]);
    }),
    { numRuns: 2000 },
  );
});

describe('patterns with hostile texts', () => {
  const LENGTHS = [512, 8192] as const;

  /** Returns the duration of the fastest of seven runs (ms), each with a different text. */
  function least(pattern: string, hostile: string, length: number): number {
    const runs = Array.from({ length: 7 }, (_, run) => {
      const text = `${hostile.repeat(length).slice(0, length - 2)}${run}!`;
      const compiled = createPattern(pattern);
      compiled.matches(`${run}`);
      const start = performance.now();
      compiled.matches(text);
      return performance.now() - start;
    });
    return Math.min(...runs);
  }

  it.each([
    ['.*a.*a.*b', 'a'],
    ['.*a.*a.*a.*a.*b', 'a'],
    ['(a+)+', 'a'],
    ['(a|aa)+', 'a'],
    ['(?:a?){20}a{20}', 'a'],
    ['(.*)(.*)(.*)(.*)(.*)[^a]{50}', 'ab'],
  ])('the pattern %s matches hostile text in less than quadratic time', (pattern, hostile) => {
    const [short, long] = LENGTHS;
    // The long text has 16 times the length. Quadratic time would take 256 times as long, and cubic time 4096 times.
    const measured = least(pattern, hostile, long) / Math.max(least(pattern, hostile, short), 0.05);
    expect(measured).toBeLessThan(200);
  });

  it('a pattern evaluates each text once and caches the result', ({ onTestFinished }) => {
    const evaluated = vi.spyOn(RE2JS.prototype, 'matches');
    onTestFinished(() => evaluated.mockRestore());
    const pattern = createPattern('.*a.*a.*b');
    for (let time = 0; time < 10_000; time += 1) pattern.matches('a'.repeat(500 + (time % 3)));
    expect(evaluated).toHaveBeenCalledTimes(3);
  });

  it('a pattern caches a bounded number of texts and returns correct results after evicting some of them', ({
    onTestFinished,
  }) => {
    const evaluated = vi.spyOn(RE2JS.prototype, 'matches');
    onTestFinished(() => evaluated.mockRestore());
    const pattern = createPattern('[0-9]+x*');
    const texts = Array.from({ length: 1200 }, (_, number) => `${number}${'x'.repeat(4000)}`);
    for (const text of [...texts, ...texts]) expect(pattern.matches(text)).toBe(true);
    // 1,200 × 4,000 characters exceed the cache, so the first texts were evicted.
    expect(evaluated.mock.calls.length).toBeGreaterThan(1200);
  });
});
