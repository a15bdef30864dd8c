import { readFile, realpath, stat } from 'node:fs/promises';
import type { Clock } from '../kit/clock.ts';
import { type Env, type Secret, type SecretSetting, toToken } from '../kit/secret.ts';
import type { Call, Request } from './call.ts';
import { statusText, UpstreamError } from './errors.ts';

export interface TokenSource {
  /** Gives the token to send now. Throws UpstreamError `unauthorized` when there is none. */
  (): Promise<Secret>;
  /** When the reset that is under way began, milliseconds since the Unix epoch; undefined when there is none. */
  beingReplacedSince?(): Promise<number | undefined>;
}

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
    // Usually absent. Any other reason fails the read of the token, too, and is reported there.
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

/** Throws an Error if the environment variable holds no token. */
export function tokenSource(setting: SecretSetting, env: Env): TokenSource {
  if ('file' in setting) return fileToken(setting.file);
  if ('literal' in setting) return fixedToken(setting.literal);
  const token = toToken(env[setting.env] ?? '');
  if (!token) throw new Error(`the environment variable ${setting.env} holds no token`);
  return fixedToken(token);
}

/** A refused token is tried again after this many milliseconds: it may have been allowed meanwhile. */
export const RECHECK_AFTER = 300_000;

/** How long a token reset in progress is waited for, and the polling interval, milliseconds. */
const LONGEST_RESET = 60_000;
const POLL_EVERY = 50;

/**
 * Adds the account's bearer token, which is read for each request because the file may change. After a 401 only one request
 * every five minutes is sent with that token; another token is tried at once, and a reset in progress is waited for.
 */
export const withBearer =
  (token: TokenSource, clock: Clock, onRejected: (rejected: boolean) => void) =>
  (call: Call): Call => {
    let refused: { readonly token: string; readonly serviceError: string | undefined; at: number } | undefined;
    const isUnauthorized = (error: unknown): error is UpstreamError =>
      error instanceof UpstreamError && error.reason === 'unauthorized';

    /** Whether there is another token than `sent` now, or soon. Undefined if the request has no time left to find out. */
    async function isReplaced(sent: string, { signal, time }: Request): Promise<boolean | undefined> {
      for (;;) {
        // Asked first: it ends only after the token has changed.
        const since = await token.beingReplacedSince?.();
        if ((await token()).reveal() !== sent) return true;
        if (since === undefined || clock.now() - since > LONGEST_RESET) return false;
        if ((time?.left() ?? 1) <= 0) return undefined;
        await clock.sleep(POLL_EVERY, signal);
      }
    }

    return async (request, headers) => {
      for (let changed = false; ; changed = true) {
        const sent = (await token()).reveal();
        if (refused?.token === sent) {
          if (clock.monotonic() - refused.at < RECHECK_AFTER) {
            const { serviceError } = refused;
            const why = serviceError === undefined ? '' : `: ${statusText(401, serviceError)}`;
            const message = `the service rejects the token; it is retried every 5 minutes${why}`;
            throw new UpstreamError('unauthorized', message, { serviceError });
          }
          // Taken before the answer, so that one request asks and not all that wait.
          refused.at = clock.monotonic();
        }
        try {
          const answer = await call(request, { ...headers, authorization: `Bearer ${sent}` });
          if (refused) onRejected(false);
          refused = undefined;
          return answer;
        } catch (error) {
          if (!isUnauthorized(error)) throw error;
          // The token may have been replaced while the request was in flight; one retry is enough.
          const replaced = !changed && (await isReplaced(sent, request));
          if (replaced) continue;
          if (replaced === undefined) throw error;
          if (!refused) onRejected(true);
          refused = { token: sent, serviceError: error.serviceError, at: clock.monotonic() };
          throw error;
        }
      }
    };
  };
