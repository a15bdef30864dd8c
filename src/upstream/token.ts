import { readFile, stat } from 'node:fs/promises';
import type { Clock } from '../kit/clock.ts';
import { MAX_SECRET_BYTES, whyNotRead } from '../kit/regular-file.ts';
import { type Env, type Secret, type SecretSetting, toToken } from '../kit/secret.ts';
import { statusText, UpstreamError } from './errors.ts';
import type { Call, Endpoint } from './send.ts';

/** Returns the current token. Throws UpstreamError `unauthorized` if there is no token. */
export type TokenSource = () => Promise<Secret>;

async function readTokenFile(path: string): Promise<string> {
  try {
    const why = whyNotRead(await stat(path), MAX_SECRET_BYTES);
    if (why !== undefined) throw new Error(why);
    return await readFile(path, 'utf8');
  } catch (cause) {
    throw new UpstreamError('unauthorized', `the token file ${path} can't be read`, { cause });
  }
}

/** Creates a token source, which reads a file for each request, because the file may change. */
export const tokenSource =
  (setting: SecretSetting, env: Env): TokenSource =>
  async () => {
    if ('literal' in setting) return setting.literal;
    const place = 'file' in setting ? `the token file ${setting.file}` : `the environment variable ${setting.env}`;
    const token = toToken('file' in setting ? await readTokenFile(setting.file) : (env[setting.env] ?? ''));
    if (!token) throw new UpstreamError('unauthorized', `${place} contains no token`);
    return token;
  };

/** Explains why the service rejects a token with surrounding quotes in its value. */
const quotesIn = (token: string): string => (/^["']|["']$/.test(token) ? "the token's value contains quotes: " : '');

/** Lists of which an account reads at least one. Only their 401 means a rejected token: other paths may need more rights. */
const DECIDING: ReadonlySet<Endpoint> = new Set<Endpoint>(['dlq', 'events', 'flow_control']);

/** Interval at which a rejected token is retried (ms), because the service may accept it again. */
export const RECHECK_AFTER = 60_000;

/**
 * Adds the bearer token. After a 401 of a deciding list, sends the same
 * token only once per `RECHECK_AFTER`.
 */
export const withBearer =
  (token: TokenSource, clock: Pick<Clock, 'monotonic'>, onTokenRejected: (rejected: boolean) => void) =>
  (call: Call): Call => {
    let refused: { readonly token: string; readonly serviceError: string | undefined; at: number } | undefined;
    let isAccepted = false;

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
          if (!changed && (await token()).reveal() !== sent) continue;
          if (!DECIDING.has(request.endpoint)) throw error;
          if (!refused) onTokenRejected(true);
          isAccepted = false;
          refused = { token: sent, serviceError: error.serviceError, at: clock.monotonic() };
          throw error;
        }
      }
    };
  };
