import { hash64 } from '../kit/hash.ts';

/** Characters of a response that are read. */
const MAX_READ = 2048;
/** Later words, such as those of a stack trace or a page, say little about the error. */
const MAX_WORDS = 40;
const MAX_WORD = 40;

/** Members of a JSON response that explain the error. The others are specific to one message. */
const EXPLAINING: ReadonlySet<string> = new Set(
  'code error errors errorcode error_code error_description description detail message msg name reason title type'.split(
    ' ',
  ),
);

/** A string of JSON, which may be cut, with the string that follows it as a value or as the first item of a list. */
const JSON_STRING = /"((?:[^"\\]|\\.)*)"?(?:\s*:\s*\[?\s*"((?:[^"\\]|\\.)*)"?)?/gs;
const WORD = /[\w\x80-\uffff-]+/g;
/** An apostrophe inside a word neither begins nor ends a quotation. */
const QUOTATION = /"[^"]*"|`[^`]*`|(?<![\w\x80-\uffff-])'(?:[^']|'(?=[\w\x80-\uffff-]))*'/g;
/** Control characters that no text contains. */
const BINARY = /[\0-\x08\x0e-\x1a]/;

/** Replaces one or more parts in a row that differ from one message to the next. */
const ANY = '#';

/** Whether a word differs from one message to the next: it has a digit, is hexadecimal or is too long for a word. */
const isVariable = (word: string) =>
  /\d/.test(word) || word.length > MAX_WORD || (word.length >= 8 && /^[a-f-]+$/i.test(word));

/** The words of a text in lower case. Quotations, addresses and variable words become `ANY`. */
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

/** The strings of a JSON response, complete or cut, that explain the error. */
const explanationsIn = (text: string) =>
  [...text.matchAll(JSON_STRING)].flatMap(([, name = '', value]) =>
    value !== undefined && EXPLAINING.has(name.toLowerCase())
      ? [value.replace(/\\(.)/gsu, (_, escaped: string) => (escaped === '"' ? '"' : ' '))]
      : [],
  );

/**
 * Returns a short text that is the same for responses with the same explanation, regardless of numbers, ids, addresses and
 * quotations in them. Reveals nothing of their content. Only their beginning counts.
 */
export function classOfError(said: string): string {
  const text = said.slice(0, MAX_READ);
  const explanations = /^\s*[[{]/.test(text) ? explanationsIn(text).flatMap(wordsOf) : [];
  // The last word of a cut text may be incomplete.
  const whole = said.length > MAX_READ ? text.replace(/[\w\x80-\uffff-]+$/, '') : text;
  const words = explanations.length > 0 ? explanations : wordsOf(whole);
  const kept = words.filter((word, index) => word !== ANY || words[index - 1] !== ANY).slice(0, MAX_WORDS);
  return hash64(kept.join(' ')).toString(36);
}
