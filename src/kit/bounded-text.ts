import { createHash } from 'node:crypto';

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
