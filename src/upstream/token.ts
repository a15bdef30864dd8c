import { readFile, stat } from 'node:fs/promises';
import { Secret } from '../kit/secret.ts';
import { UpstreamError } from './errors.ts';

/** Gives the token to send now. Throws UpstreamError `unauthorized` when there is none. */
export type TokenSource = () => Promise<Secret>;

/** Always the same token. */
export const fixedToken =
  (token: Secret): TokenSource =>
  async () =>
    token;

/** The token in a file, surrounding blanks removed, read again whenever the file has changed. */
export function fileToken(path: string): TokenSource {
  let known: { version: string; token: Secret } | undefined;
  return async () => {
    try {
      const { mtimeMs, size, ino } = await stat(path);
      const version = `${ino}:${size}:${mtimeMs}`;
      if (known?.version !== version) {
        known = { version, token: new Secret((await readFile(path, 'utf8')).trim()) };
      }
    } catch (cause) {
      throw new UpstreamError('unauthorized', `the token file ${path} can't be read`, { cause });
    }
    if (known.token.reveal() === '') throw new UpstreamError('unauthorized', `the token file ${path} is empty`);
    return known.token;
  };
}
