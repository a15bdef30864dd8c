import { hash64 } from '../kit/hash.ts';

/** Maximum length of the text that is classified (characters). */
const MAX_READ = 2048;
/** Maximum number of words that count. Later words, such as a stack trace, rarely describe the error. */
const MAX_WORDS = 40;
const MAX_WORD = 40;

/** Members of a JSON response that explain the error; the others are specific to one message. */
const EXPLAINING: ReadonlySet<string> = new Set(
  'code error errors errorcode error_code error_description description detail message msg name reason title type'.split(
    ' ',
  ),
);

/** Matches a JSON string, possibly truncated, and the string that follows as its value or as the first item of its list. */
const JSON_STRING = /"((?:[^"\\]|\\.)*)"?(?:\s*:\s*\[?\s*"((?:[^"\\]|\\.)*)"?)?/gs;
const WORD = /[\w\x80-\uffff-]+/g;
/** Quoted text. Apostrophes inside words are not quotation marks. */
const QUOTATION = /"[^"]*"|`[^`]*`|(?<![\w\x80-\uffff-])'(?:[^']|'(?=[\w\x80-\uffff-]))*'/g;
/** Control characters that do not occur in text. */
const BINARY = /[\0-\x08\x0e-\x1a]/;

/** Replacement for one or more adjacent variable parts. */
const ANY = '#';

const isVariable = (word: string) =>
  /\d/.test(word) || word.length > MAX_WORD || (word.length >= 8 && /^[a-f-]+$/i.test(word));

function wordsOf(text: string): string[] {
  if (BINARY.test(text)) return ['binary'];
  return text
    .replace(QUOTATION, ` ${ANY} `)
    .split(/\s+/)
    .flatMap(part => {
      if (part === ANY || /@|:\/\//.test(part)) return [ANY];
      const words = (part.match(WORD) ?? []).filter(word => !/^[_-]+$/.test(word));
      return words.map(word => (isVariable(word) ? ANY : word.toLowerCase()));
    });
}

const explanationsIn = (text: string) =>
  [...text.matchAll(JSON_STRING)].flatMap(([, name = '', value]) =>
    value !== undefined && EXPLAINING.has(name.toLowerCase())
      ? [value.replace(/\\(.)/gsu, (_, escaped: string) => (escaped === '"' ? '"' : ' '))]
      : [],
  );

/**
 * Returns a short text that is equal for responses with the same explanation, regardless of numbers, ids, addresses and
 * quotations. It does not reveal content. Only the beginning of the response counts.
 */
export function classOfError(response: string): string {
  const text = response.slice(0, MAX_READ);
  const explanations = /^\s*[[{]/.test(text) ? explanationsIn(text).flatMap(wordsOf) : [];
  // The last word of a truncated text may be incomplete.
  const whole = response.length > MAX_READ ? text.replace(/[\w\x80-\uffff-]+$/, '') : text;
  const words = explanations.length > 0 ? explanations : wordsOf(whole);
  const kept = words.filter((word, index) => word !== ANY || words[index - 1] !== ANY).slice(0, MAX_WORDS);
  return hash64(kept.join(' ')).toString(36);
}
