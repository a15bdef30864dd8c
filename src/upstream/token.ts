import { readFile, realpath, stat } from 'node:fs/promises';
import type { Clock } from '../kit/clock.ts';
import { type Env, type Secret, type SecretSetting, toToken } from '../kit/secret.ts';
import type { Call, Endpoint, Request } from './call.ts';
import { statusText, UpstreamError } from './errors.ts';

export interface TokenSource {
  /** Returns the current token. Throws UpstreamError `unauthorized` if there is no token. */
  (): Promise<Secret>;
  /** Returns the start of a token reset in progress (ms since the Unix epoch); undefined if no reset is in progress. */
  beingReplacedSince?(): Promise<number | undefined>;
}

export const fixedToken =
  (token: Secret): TokenSource =>
  async () =>
    token;

/** Returns the path of the file that marks a reset in progress. `tokenFile`: path with symbolic links resolved. */
export const resetMark = (tokenFile: string) => `${tokenFile}.rotating.json`;

async function beingReplacedSince(path: string): Promise<number | undefined> {
  try {
    return (await stat(resetMark(await realpath(path)))).mtimeMs;
  } catch {
    // Usually the file is absent. Any other error also makes reading the token fail, and is reported there.
    return undefined;
  }
}

/** Reads the token from a file, and reads it again whenever the file has changed. */
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
    if (!known.token) throw new UpstreamError('unauthorized', `the token file ${path} contains no token`);
    return known.token;
  };
  return Object.assign(read, { beingReplacedSince: () => beingReplacedSince(path) });
}

/** Creates a token source. Throws UpstreamError `unauthorized` if the environment variable contains no token. */
export function tokenSource(setting: SecretSetting, env: Env): TokenSource {
  if ('file' in setting) return fileToken(setting.file);
  if ('literal' in setting) return fixedToken(setting.literal);
  const token = toToken(env[setting.env] ?? '');
  if (!token) throw new UpstreamError('unauthorized', `the environment variable ${setting.env} contains no token`);
  return fixedToken(token);
}

/** Explains a rejected token whose value contains the quotes around it. */
const quotesIn = (token: string): string => (/^["']|["']$/.test(token) ? "the token's value contains quotes: " : '');

/** Lists of which an account reads at least one. Only their 401 rejects the token: other paths may need another permission. */
const DECIDING: ReadonlySet<Endpoint> = new Set<Endpoint>(['dlq', 'events', 'flow_control']);

/** Interval at which a rejected token is retried (ms), because the service may accept it again. */
export const RECHECK_AFTER = 60_000;

/** Maximum wait for a token reset in progress, and the polling interval (ms). */
const MAX_RESET_TIME = 60_000;
const POLL_EVERY = 50;

/**
 * Adds the bearer token, reading it for each request because the file may change. After a 401 of a deciding list, sends the same
 * token only once per `RECHECK_AFTER`. Waits for a token reset in progress.
 */
export const withBearer =
  (token: TokenSource, clock: Clock, onTokenRejected: (rejected: boolean) => void) =>
  (call: Call): Call => {
    let refused: { readonly token: string; readonly serviceError: string | undefined; at: number } | undefined;
    let isAccepted = false;

    /** Whether the token differs from `sent` now or after a reset in progress. Undefined if the request has no time left to wait. */
    async function isReplaced(sent: string, { signal, time }: Request): Promise<boolean | undefined> {
      for (;;) {
        // Check for a reset before reading the token, because a reset ends only after the token has changed.
        const since = await token.beingReplacedSince?.();
        if ((await token()).reveal() !== sent) return true;
        if (since === undefined || clock.now() - since > MAX_RESET_TIME) return false;
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
            const message = `${quotesIn(sent)}the service rejects the token; it is retried every minute${why}`;
            throw new UpstreamError('unauthorized', message, { serviceError });
          }
          // Set before the response arrives, so that only one of the waiting requests retries the token.
          refused.at = clock.monotonic();
        }
        try {
          const response = await call(request, { ...headers, authorization: `Bearer ${sent}` });
          if (!isAccepted) onTokenRejected(false);
          isAccepted = true;
          refused = undefined;
          return response;
        } catch (error) {
          if (!(error instanceof UpstreamError) || error.reason !== 'unauthorized') throw error;
          error.message = quotesIn(sent) + error.message;
          // The token may have been replaced while the request was in flight; one retry is enough.
          const replaced = !changed && (await isReplaced(sent, request));
          if (replaced) continue;
          if (replaced === undefined || !DECIDING.has(request.endpoint)) throw error;
          if (!refused) onTokenRejected(true);
          isAccepted = false;
          refused = { token: sent, serviceError: error.serviceError, at: clock.monotonic() };
          throw error;
        }
      }
    };
  };
