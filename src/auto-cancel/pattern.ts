import { RE2JS, RE2JSException, RE2JSSyntaxException } from 're2js';
import { memoize } from '../kit/memo.ts';

/** Longer text is not tried: no address that anything on its way takes is longer. */
const LONGEST_TEXT = 8192;
/** What the texts may weigh whose verdicts are remembered, in characters: those of a walk of a large queue. */
const MOST_REMEMBERED = 2 ** 22;

/** Why text is no pattern; undefined when it is one. Quotes nothing of it. */
export function faultOfPattern(pattern: string): string | undefined {
  try {
    RE2JS.compile(pattern, RE2JS.DOTALL);
    return undefined;
  } catch (error) {
    if (!(error instanceof RE2JSException)) throw error;
    const why = error instanceof RE2JSSyntaxException ? error.getDescription() : 'too large';
    return `must be a Prometheus regular expression (RE2: no lookaround, no backreferences): ${why.replace(/^error parsing regexp: /, '').replace(/: `.*$/su, '')}`;
  }
}

/**
 * Compiles a regular expression of Prometheus' dialect (RE2). It matches a whole text, line breaks included, in linear time.
 * Results are cached: a walk shows the same few addresses and labels again and again.
 */
export function createPattern(pattern: string) {
  const expression = RE2JS.compile(pattern, RE2JS.DOTALL);
  const remembered = memoize(text => expression.matches(text), MOST_REMEMBERED);
  return {
    /** Undefined: the text is too long to be tried. */
    matches: (text: string): boolean | undefined => (text.length > LONGEST_TEXT ? undefined : remembered(text)),
    toString: (): string => pattern,
    toJSON: (): string => pattern,
  };
}
