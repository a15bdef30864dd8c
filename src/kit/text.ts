import { hash } from 'node:crypto';

/** Replaces control and formatting characters, to make text safe for a terminal. */
export const printable = (text: string) => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, '\u{fffd}');

/** Escapes each UTF-16 unit, as in JSON. */
export const escaped = (text: string) =>
  text
    .split('')
    .map(unit => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('');

/** Escapes control and formatting characters, of which JSON.stringify escapes only the first 32. Keeps line feeds between values. */
export const escapedJson = (json: string) => json.replace(/(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, escaped);

/** Serializes a value to JSON that is safe for a terminal. */
export const printableJson = (value: unknown, indent?: number) => escapedJson(JSON.stringify(value, null, indent));

/** Returns the first `limit` characters of a text, or one less to keep a surrogate pair together. */
export const cutText = (text: string, limit: number) => text.slice(0, limit).replace(/[\ud800-\udbff]$/, '');

/** Truncates text to `limit` characters. Ends it with a part of its SHA-256 so that different texts stay different. */
export function boundText(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const digest = hash('sha256', text).slice(0, 16);
  // A copy, because a part of a long text would keep all of it in memory.
  return Buffer.from(`${cutText(text, limit - digest.length - 1)}…${digest}`).toString();
}

/** Captures the host and port, as a URL parser finds them. */
const HOST = /^[^:]*:[/\\]*(?:[^/\\?#]*@)?([^/\\?#]*)/;
/** Maximum length of a host with its port (bytes, as written). DNS allows 253 bytes for a host, in Punycode. */
const MAX_HOST_BYTES = 260;

let last: { readonly text: string; readonly address: URL | null } = { text: '', address: null };

/**
 * Parses a URL from the service. Returns null if it is invalid or its host is too long: parsing an international host takes
 * quadratic time. Caches the last URL, because callers parse the URL of a row several times. Do not modify it.
 */
export function parseUrl(text: string): Readonly<URL> | null {
  if (text === last.text) return last.address;
  // URL parsers ignore these characters.
  const [, host = ''] = HOST.exec(text.replace(/[\t\n\r]/g, '')) ?? [];
  last = { text, address: Buffer.byteLength(host) > MAX_HOST_BYTES ? null : URL.parse(text) };
  return last.address;
}

/** Matches names, such as topic names, that cannot contain a user or query. */
const NAME = /^[\w./-]*$/;

/**
 * Normalizes an http or https address and removes user, query and fragment, which may contain secrets. `…` marks removed
 * parts and replaces an invalid address.
 */
export function bareAddress(text: string): string {
  if (NAME.test(text)) return text;
  const url = parseUrl(text);
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') return '…';
  // A path with these characters may contain a user or a query.
  if (/@|%(40|3f|23)/i.test(url.pathname)) return `${url.origin}/…`;
  return `${url.origin}${url.pathname}${url.search === '' && url.hash === '' ? '' : '?…'}`;
}

/** Like `bareAddress`, without a mark for the removed query. */
export const pathAddress = (text: string) => bareAddress(text).replace(/\?…$/, '');

/** A Prometheus label name. The prefix `__` is reserved. */
export const LABEL_NAME = /^(?!__)[a-zA-Z_][a-zA-Z0-9_]*$/;

const MAX_NAMED = 10;

export function someOf(words: readonly string[]): string {
  const rest = words.length > MAX_NAMED ? ` and ${words.length - MAX_NAMED} more` : '';
  return words.slice(0, MAX_NAMED).join(', ') + rest;
}

const numbers = new Intl.NumberFormat('en-US', { maximumFractionDigits: 2, signDisplay: 'negative' });

/** Formats a number as `12,345`, with at most two decimals. */
export const grouped = (number: number): string => numbers.format(number).replace('-', '−');

/** Formats a count: `3 problems`, `1 problem`. */
export const plural = (number: number, one: string, many = `${one}s`) =>
  `${grouped(number)} ${number === 1 ? one : many}`;

/** Formats a ratio in percent with one decimal, or with two within 1 % of 0 or 100 %: only 0 is `0 %`, and only 1 is `100 %`. */
export function percent(ratio: number): string {
  const steps = ratio < 0.01 || (ratio > 0.99 && ratio < 1) ? 1e4 : 1e3;
  const rounded = Math.round(ratio * steps) / steps;
  if (rounded === 0 && ratio > 0) return '< 0.01 %';
  return rounded === 1 && ratio < 1 ? '> 99.99 %' : `${grouped(rounded * 100)} %`;
}
