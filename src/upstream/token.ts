import { readFile, stat } from 'node:fs/promises';
import { Secret } from '../kit/secret.ts';
import { UpstreamError } from './errors.ts';

/** Gives the token to send now. Throws UpstreamError `unauthorized` when there is none. */
export type TokenSource = () => Promise<Secret>;

/** A token as a header can carry it, blanks round it removed; undefined when the text is none. */
export function toToken(text: string): Secret | undefined {
  const trimmed = text.trim();
  return /^[\x21-\x7e]+$/.test(trimmed) ? new Secret(trimmed) : undefined;
}

/** Always the same token. */
export const fixedToken =
  (token: Secret): TokenSource =>
  async () =>
    token;

/** The token in a file, read again whenever the file has changed. */
export function fileToken(path: string): TokenSource {
  let known: { version: string; token: Secret | undefined } | undefined;
  return async () => {
    try {
      const { mtimeMs, size, ino } = await stat(path);
      const version = `${ino}:${size}:${mtimeMs}`;
      if (known?.version !== version) {
        known = { version, token: toToken(await readFile(path, 'utf8')) };
      }
    } catch (cause) {
      throw new UpstreamError('unauthorized', `the token file ${path} can't be read`, { cause });
    }
    if (!known.token) throw new UpstreamError('unauthorized', `the token file ${path} holds no token`);
    return known.token;
  };
}
