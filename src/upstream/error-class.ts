import { hash64 } from '../kit/hash.ts';

/** Characters of an answer that are looked at. */
const LONGEST = 2048;
/** Words that count: what comes later, such as a stack or the contents of a page, says little. */
const MOST_WORDS = 40;
const LONGEST_WORD = 40;

/** Members of a JSON answer that say what went wrong. The others are of this one message. */
const TELLING: ReadonlySet<string> = new Set(
  'code error errors errorcode error_code error_description description detail message msg name reason title type'.split(
    ' ',
  ),
);

/** Stands for what differs from one message to the next, however many such words follow each other. */
const ANY = '#';

const [OTHER, LETTER, DIGIT, BLANK, QUOTE, APOSTROPHE, BINARY] = [0, 1, 2, 3, 4, 5, 6];
/** What the characters of ASCII are; all others are letters. */
const KINDS = Uint8Array.from({ length: 128 }, (_, code) => {
  const character = String.fromCharCode(code);
  if (/[\w-]/.test(character)) return /\d/.test(character) ? DIGIT : LETTER;
  if (/\s/.test(character)) return BLANK;
  if (/["`]/.test(character)) return QUOTE;
  if (character === "'") return APOSTROPHE;
  return code < 27 ? BINARY : OTHER;
});
const kindAt = (text: string, at: number) => KINDS[text.charCodeAt(at)] ?? LETTER;
function isOfWord(text: string, at: number): boolean {
  const kind = at >= 0 && at < text.length ? kindAt(text, at) : OTHER;
  return kind === LETTER || kind === DIGIT;
}

/** Where a quotation that begins here ends; -1 where it does not. An apostrophe within a word is none. */
function endOfQuote(text: string, from: number): number {
  const mark = text[from] as string;
  for (let at = text.indexOf(mark, from + 1); at !== -1; at = text.indexOf(mark, at + 1)) {
    if (mark !== "'" || !isOfWord(text, at + 1)) return at;
  }
  return -1;
}

/** Whether a word differs from one message to the next, though it has no digit: it is hexadecimal, or is none. */
const isVariable = (word: string) => word.length > LONGEST_WORD || (word.length >= 8 && /^[a-f-]+$/i.test(word));

/** Adds the words of a text, without quotations and addresses; says whether it is text. `isCut`: its last word is not whole. */
function addWords(text: string, words: string[], isCut: boolean): boolean {
  const put = (word: string) => {
    if (word !== ANY || words.at(-1) !== ANY) words.push(word);
  };
  /** Words before the last blank: in an address, all that follow are a part of it. */
  let before = words.length;
  let isQuotable = true;
  for (let at = 0; at < text.length && words.length < MOST_WORDS; at += 1) {
    const kind = kindAt(text, at);
    if (kind === LETTER || kind === DIGIT) {
      const start = at;
      let hasDigit = kind === DIGIT;
      while (isOfWord(text, at + 1)) {
        at += 1;
        hasDigit ||= kindAt(text, at) === DIGIT;
      }
      if (isCut && at === text.length - 1) break;
      const word = hasDigit ? ANY : text.slice(start, at + 1).toLowerCase();
      if (!/^[_-]+$/.test(word)) put(isVariable(word) ? ANY : word);
    } else if (kind === BLANK) before = words.length;
    else if (kind === BINARY) return false;
    else if (kind === QUOTE || (kind === APOSTROPHE && isQuotable && !isOfWord(text, at - 1))) {
      const end = endOfQuote(text, at);
      if (end !== -1) {
        put(ANY);
        at = end;
      } else if (kind === APOSTROPHE) isQuotable = false;
    } else if (text[at] === '@' || text.startsWith('://', at)) {
      words.length = Math.min(words.length, before);
      put(ANY);
      while (at + 1 < text.length && kindAt(text, at + 1) !== BLANK) at += 1;
    }
  }
  return true;
}

/** Where the JSON string that begins here ends, its closing mark; the end of the text where it does not. */
function endOfString(text: string, from: number): number {
  for (let at = from + 1; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === 0x22) return at;
    if (code === 0x5c) at += 1;
  }
  return text.length;
}

/** The texts of a JSON answer, whole or cut, that say what went wrong. */
function* tellingTexts(text: string): Generator<string> {
  const skipBlanks = (at: number) => {
    let next = at;
    while (next < text.length && kindAt(text, next) === BLANK) next += 1;
    return next;
  };
  for (let at = text.indexOf('"'); at !== -1; at = text.indexOf('"', at)) {
    const end = endOfString(text, at);
    const name = end - at < LONGEST_WORD ? text.slice(at + 1, end).toLowerCase() : '';
    at = end + 1;
    if (!TELLING.has(name)) continue;
    const colon = skipBlanks(at);
    if (text[colon] !== ':') continue;
    const first = skipBlanks(colon + 1);
    const value = text[first] === '[' ? skipBlanks(first + 1) : first;
    if (text[value] !== '"') continue;
    at = endOfString(text, value) + 1;
    const found = text.slice(value + 1, at - 1);
    yield found.includes('\\')
      ? found.replace(/\\(.)/gsu, (_, escaped: string) => (escaped === '"' ? '"' : ' '))
      : found;
  }
}

/** The words of what an answer says went wrong. */
function wordsOf(said: string, isCut: boolean): readonly string[] {
  const words: string[] = [];
  const isJson = /^\s*[[{]/.test(said);
  if (isJson) for (const text of tellingTexts(said)) addWords(text, words, false);
  if (words.length === 0 && !addWords(said, words, isCut)) return ['binary'];
  return words;
}

/**
 * A short text that is the same for answers that say the same went wrong, whatever their numbers, ids, addresses and
 * quotations. It says nothing of what they say. Only their beginning counts.
 */
export function classOfError(said: string): string {
  const words = wordsOf(said.slice(0, LONGEST), said.length > LONGEST);
  return hash64(words.join(' ')).toString(36);
}
