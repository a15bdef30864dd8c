/** Longer patterns are refused. */
const LONGEST_PATTERN = 500;
/** Longer text is not matched. A power of two, for the sake of what follows. */
const LONGEST_SUBJECT = 512;

/**
 * The most ways that there may be to match, as a power of two: text of the service may be hostile, and matching must end
 * in a fraction of a second. What repeats may end anywhere in the text. What is optional or an alternative doubles the ways,
 * and weighs more than that: of several that repeat, one ends before the next begins, which makes their ways fewer.
 */
const MOST_BITS = 27;
const REPEATED_BITS = Math.log2(LONGEST_SUBJECT);
const OPTIONAL_BITS = 2;

/** An escape, a class, the beginning or end of a group, an alternative, a repetition, or any other character. */
const TOKEN = /\\.|\[(?:\\.|[^\]\\])*\]|\((?:\?(?:<?[=!]|<[^>]*>|:))?|\)|\||(?:[*+?]|\{\d+,?\d*\})\??|./gsu;

/**
 * Whether the worst that text can do to a pattern is bounded: nothing is repeated that itself varies, not much varies, and
 * nothing looks around or back. Conservative: what it refuses may be harmless.
 */
function isBounded(pattern: string): boolean {
  /** Of each open group, does what is in it vary? The first is the whole pattern. */
  const open = [false];
  let lastVaries = false;
  let bits = 0;
  for (const [token] of pattern.matchAll(TOKEN)) {
    if (/^\(\?<?[=!]|^\\[1-9k]/.test(token)) return false;
    if (token.startsWith('(')) open.push(false);
    else if (token === ')') {
      lastVaries = open.pop() === true;
      if (lastVaries) open[open.length - 1] = true;
    } else if (/^[|?]/.test(token)) {
      bits += OPTIONAL_BITS;
      open[open.length - 1] = true;
    } else if (/^[*+]|^\{\d/.test(token)) {
      if (lastVaries) return false;
      if (/^\{\d+\}/.test(token)) continue;
      bits += REPEATED_BITS;
      open[open.length - 1] = true;
    } else lastVaries = false;
  }
  return bits <= MOST_BITS;
}

/** Why a regular expression is not taken; undefined when it is. */
export function faultOfPattern(pattern: string): string | undefined {
  if (pattern.length > LONGEST_PATTERN) return `must have at most ${LONGEST_PATTERN} characters`;
  try {
    // Alone, too: `a)|(b` is none, and would be one between the brackets that are put round it.
    new RegExp(pattern, 'su');
  } catch {
    return 'must be a regular expression (JavaScript, flags s and u)';
  }
  if (isBounded(pattern)) return undefined;
  return 'must match in bounded time: no repetition of what itself varies, as in (a+)* or (a|b)*, no look-around, no back-reference, at most 3 of * + {n,m}, and fewer where there are more than a few of ? and |';
}

/** Whether a regular expression that has no fault matches the whole of `text`; undefined when that is too long to be tried. */
export function matchesWhole(pattern: string, text: string): boolean | undefined {
  return text.length > LONGEST_SUBJECT ? undefined : new RegExp(`^(?:${pattern})$`, 'su').test(text);
}
