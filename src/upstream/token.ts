import { readFile, realpath, stat } from 'node:fs/promises';
import { type Secret, toToken } from '../kit/secret.ts';
import { UpstreamError } from './errors.ts';

export interface TokenSource {
  /** Gives the token to send now. Throws UpstreamError `unauthorized` when there is none. */
  (): Promise<Secret>;
  /** Since when somebody has been about to replace it, milliseconds since the Unix epoch; undefined when nobody is. */
  beingReplacedSince?(): Promise<number | undefined>;
}

/** Always the same token. */
export const fixedToken =
  (token: Secret): TokenSource =>
  async () =>
    token;

/** The file that stands beside a token's (links followed) from before its reset is asked for until the new one is in its place. */
export const resetMark = (tokenFile: string) => `${tokenFile}.rotating.json`;

async function beingReplacedSince(path: string): Promise<number | undefined> {
  try {
    return (await stat(resetMark(await realpath(path)))).mtimeMs;
  } catch {
    // Not there, which is the rule. What else keeps it from being read keeps the token too, and is told there.
    return undefined;
  }
}

/** The token in a file, read again whenever the file has changed. */
export function fileToken(path: string): TokenSource {
  let known: { version: string; token: Secret | undefined } | undefined;
  const read = async () => {
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
  return Object.assign(read, { beingReplacedSince: () => beingReplacedSince(path) });
}
