import { stripVTControlCharacters } from 'node:util';
import { BoundedMap } from './bounded-map.ts';
import { memoize } from './memo.ts';
import { cutText, printable } from './text.ts';

const MARK = '<secret>';
/** Maximum length of examined text (characters). It is above the output's limit, because most of the text may be redacted. */
const MAX_EXAMINED = 1024;
/** Length of the end of truncated text (characters). The end is examined but not shown: it may be the start of a secret. */
const MARGIN = 64;
/** Minimum length of a matched part of a secret (characters). It is larger for URL paths, which contain ordinary words. */
const GRAM = 8;
const PATH_GRAM = 16;
/** Minimum length of a redacted secret: shorter ones would match ordinary words. */
const MIN_SECRET = 4;

const PASSWORD = '\\b[\\w-]{0,32}(?:password|passwd|pwd|secret)s?';
const NAME = `(?:${PASSWORD}|\\b[\\w-]{0,32}(?:token|authorization|credential|signature|api[_-]?key)s?)`;
const QUOTE = `\\\\?["']`;
const VALUE = `[^\\s"'&,;]+`;
const keeping = (before: string, value: string) => new RegExp(`(?<keep>${before})${value}`, 'gi');

/** Text that looks like a credential. The group `keep` is not redacted. Matching takes linear time. */
const SHAPES: readonly RegExp[] = [
  // JSON in base64: a JWT, or a token that is a JSON object.
  /eyJ[\w+/=.-]{5,}/g,
  keeping('\\b(?:bearer|basic)\\s{1,9}', `(?![a-z]{1,15}(?:[\\s.,;]|$))[^\\s"',;]+`),
  // User and password in a URL.
  keeping('://', `[^\\s/"'<>@]{1,512}@`),
  // Values in a query string.
  keeping('[?&][\\w.%-]{1,64}=', `[^\\s&"'<>]+`),
  keeping(`${NAME}(?:${QUOTE})?\\s?=\\s?`, VALUE),
  keeping(`${NAME}${QUOTE}\\s?:\\s?${QUOTE}`, `[^"']+`),
  keeping(`${PASSWORD}\\s?:\\s?`, VALUE),
  // A plain word is an explanation, as in "invalid token: expired".
  keeping(`${NAME}\\s?:\\s?`, `(?![a-z]+\\b)${VALUE}`),
  // Long random text.
  /(?<![\w+=~-])(?=[a-z_+=~-]{0,64}\d)[\w+=~-]{20,}|[\w+=~-]{48,}/gi,
];

interface Range {
  readonly from: number;
  readonly to: number;
}

const INVISIBLE = /[\p{C}\p{Z}\s]/u;
/** Percent-encoding and JSON escapes, also when encoded twice or three times, and the character references of HTML. */
const ESCAPED = /%(?:25){0,2}[\da-f]{2}|&#x[\da-f]{2};|&#\d{2,3};|\\{1,2}u[\da-f]{4}|\\[\s\S]|[\s\S]/gi;
const CODE = /^(?:%(?:25)*|&#x|\\+u)(?<hex>[\da-f]+);?$|^&#(?<decimal>\d+);$/i;
const JSON_ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', b: '\b', f: '\f' };

/** Unifies the alphabets and cases of base64, to redact too much rather than too little. */
const folded = (text: string) => text.replaceAll('-', '+').replaceAll('_', '/').toLowerCase();

function decoded(part: string): string {
  const { hex, decimal } = CODE.exec(part)?.groups ?? {};
  if (hex !== undefined) return String.fromCharCode(Number.parseInt(hex, 16));
  if (decimal !== undefined) return String.fromCharCode(Number(decimal));
  return part.length === 2 ? (JSON_ESCAPES[part.slice(1)] ?? part.slice(1)) : part;
}

/** Returns the folded character that a part represents; "" if it is invisible. */
const visible = memoize((part: string) => {
  const char = folded(decoded(part));
  return char.length !== 1 || INVISIBLE.test(char) ? '' : char;
}, 100_000);

/** Returns the visible characters of a text, with their positions in the original. */
function compact(text: string, pattern: RegExp) {
  const ranges: Range[] = [];
  let kept = '';
  for (const { 0: part, index } of text.matchAll(pattern)) {
    const char = visible(part);
    if (char === '') continue;
    kept += char;
    ranges.push({ from: index, to: index + part.length });
  }
  return { text: kept, ranges };
}

/** Returns the texts in a base64 token that is a JSON object. */
function textsIn(token: string): readonly string[] {
  try {
    const values: unknown[] = Object.values(JSON.parse(Buffer.from(token, 'base64').toString()));
    return values.filter(value => typeof value === 'string');
  } catch {
    return [];
  }
}

/** Returns a secret's parts with their minimum match lengths. Omits the scheme and host of a URL. */
function partsOf(secret: string): readonly (readonly [part: string, gram: number])[] {
  const url = secret.includes('://') ? URL.parse(secret) : null;
  if (!url) return [secret, ...textsIn(secret)].map(part => [part, GRAM]);
  return [
    [url.password, GRAM],
    [url.search.slice(1), GRAM],
    [url.pathname.slice(1), PATH_GRAM],
  ];
}

/** Returns a text in base64 at its three possible alignments. */
const inBase64 = (text: string) =>
  [0, 1, 2].map(before => {
    const bytes = Buffer.concat([Buffer.alloc(before), Buffer.from(text)]);
    // Omit the characters that depend on surrounding bytes.
    return bytes
      .toString('base64')
      .replace(/=+$/, '')
      .slice(Math.ceil((before * 8) / 6), Math.floor((bytes.length * 8) / 6));
  });

type Grams = ReadonlyMap<number, ReadonlySet<string>>;

/** Grams of the latest secrets, at about 50 kB each. */
const cached = new BoundedMap<string, Grams>(200);

function gramsOf(secret: string): Grams {
  const before = cached.get(secret);
  if (before) return before;
  const grams = new Map<number, Set<string>>();
  cached.set(secret, grams);
  for (const [part, gram] of partsOf(secret)) {
    const forms = [part, ...inBase64(part)].map(form => compact(form, /[\s\S]/g));
    // A password in a URL is percent-encoded.
    if (part.includes('%')) forms.push(compact(part, ESCAPED));
    for (const { text } of forms) {
      const length = Math.min(gram, text.length);
      if (length < MIN_SECRET) continue;
      const known = grams.get(length) ?? new Set();
      grams.set(length, known);
      for (let at = 0; at + length <= text.length; at += 1) known.add(text.slice(at, at + length));
    }
  }
  return grams;
}

function* knownRanges(text: string, secrets: readonly string[]): Generator<Range> {
  const grams = secrets.flatMap(secret => [...gramsOf(secret)]);
  if (grams.length === 0) return;
  for (const pattern of /[%\\&]/.test(text) ? [/[\s\S]/g, ESCAPED] : [/[\s\S]/g]) {
    const view = compact(text, pattern);
    for (const [length, known] of grams) {
      for (let at = 0; at + length <= view.text.length; at += 1) {
        if (!known.has(view.text.slice(at, at + length))) continue;
        yield { from: view.ranges[at]?.from ?? 0, to: view.ranges[at + length - 1]?.to ?? 0 };
      }
    }
  }
}

function* shapedRanges(text: string): Generator<Range> {
  for (const shape of SHAPES) {
    for (const match of text.matchAll(shape)) {
      const from = match.index + (match.groups?.keep?.length ?? 0);
      yield { from, to: match.index + match[0].length };
    }
  }
}

/**
 * Returns a function that formats text from the service as one line of at most `limit` characters. It redacts `secrets` (even if
 * partial, escaped or in base64) and text that looks like a credential.
 */
export function createRedactor(secrets: readonly string[], limit: number): (text: string) => string {
  return text => {
    const examined = stripVTControlCharacters(text.slice(0, MAX_EXAMINED)).replace(/\s+/g, ' ').trim();
    const ranges = [...knownRanges(examined, secrets), ...shapedRanges(examined)].sort((a, b) => a.from - b.from);
    const last = text.length > MAX_EXAMINED ? examined.length - MARGIN : examined.length;
    let shown = '';
    let end = 0;
    for (const { from, to } of ranges) {
      if (from >= last) break;
      if (shown === '' || from > end) shown += examined.slice(end, from) + MARK;
      end = Math.max(end, to);
    }
    const line = printable(shown + examined.slice(end, Math.max(0, last)));
    const isCut = line.length > limit || text.length > MAX_EXAMINED;
    return isCut ? `${cutText(line, limit - 1)}…` : line;
  };
}

/** Formats one text like `createRedactor`. */
export const redacted = (text: string, secrets: readonly string[], limit: number) =>
  createRedactor(secrets, limit)(text);
