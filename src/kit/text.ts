import { createHash } from 'node:crypto';

/** Replaces control and formatting characters, so that foreign text is safe for a terminal. */
export const printable = (text: string) => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, '\u{fffd}');

/**
 * `text` when it has at most `limit` characters, else its beginning and 16 digits of its SHA-256, together `limit` long:
 * long texts that differ anywhere stay different. Lone surrogates become U+FFFD first, as in any UTF-8.
 */
export function boundText(text: string, limit: number): string {
  const wellFormed = text.toWellFormed();
  if (wellFormed.length <= limit) return wellFormed;
  const digest = createHash('sha256').update(wellFormed).digest('hex').slice(0, 16);
  return `${wellFormed.slice(0, limit - digest.length - 1).toWellFormed()}…${digest}`;
}

/** What can hold neither a user nor a query, such as the name of a topic. */
const NAME = /^[\w./-]*$/;

/**
 * An http or https address without user, query and fragment, which may hold secrets: `…` stands for the latter. It is
 * shown as it is understood, not as it is spelt; of what can't be understood nothing is shown but `…`.
 */
export function bareAddress(text: string): string {
  if (NAME.test(text)) return text;
  const url = URL.parse(text);
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') return '…';
  // A path that has them, encoded or not, was meant as something else.
  if (/@|%(40|3f|23)/i.test(url.pathname)) return `${url.origin}/…`;
  return `${url.origin}${url.pathname}${url.search === '' && url.hash === '' ? '' : '?…'}`;
}

/** As `bareAddress`, without a sign for the removed query. */
export const pathAddress = (text: string) => bareAddress(text).replace(/\?…$/, '');

/** A label name of Prometheus. Those that begin with `__` are its own. */
export const LABEL_NAME = /^(?!__)[a-zA-Z_][a-zA-Z0-9_]*$/;
