import { RE2JS, RE2JSException, RE2JSSyntaxException } from 're2js';
import { memoize } from '../kit/memo.ts';

/** Maximum length of a tested text (characters). */
const MAX_TEXT = 8192;
/** Maximum total length of cached texts (characters). */
const MAX_CACHED = 2 ** 22;

/** Returns why a pattern is invalid, or undefined. Does not quote the pattern. */
export function patternError(pattern: string): string | undefined {
  try {
    RE2JS.compile(pattern, RE2JS.DOTALL);
    return undefined;
  } catch (error) {
    if (!(error instanceof RE2JSException)) throw error;
    const why = error instanceof RE2JSSyntaxException ? error.getDescription() : 'too large';
    return `must be a Prometheus regular expression (RE2: no lookaround, no backreferences): ${why.replace(/^error parsing regexp: /, '').replace(/: `.*$/su, '')}`;
  }
}

/** Compiles an anchored RE2 expression, as in Prometheus. Caches results, because walks repeat the same values. */
export function createPattern(pattern: string) {
  const expression = RE2JS.compile(pattern, RE2JS.DOTALL);
  const cached = memoize(text => expression.matches(text), MAX_CACHED);
  return {
    /** Returns whether the text matches; undefined if it is too long. */
    matches: (text: string): boolean | undefined => (text.length > MAX_TEXT ? undefined : cached(text)),
    toString: (): string => pattern,
    toJSON: (): string => pattern,
  };
}
