import { request as undiciRequest } from 'undici';
import { type Clock, withDeadline } from '../kit/clock.ts';
import type { Secret } from '../kit/secret.ts';
import { MAX_PAGE_BYTES } from './body.ts';
import { type Reason, reasonOfStatus, UpstreamError } from './errors.ts';
import { rotatesKeys } from './options.ts';
import { createSend, type SendDeps, toUpstreamError, untilAborted, withRetry } from './send.ts';

/** Public entry point of this module for rotation/: token reset and token check. */
export { parseResetResponse, type ResetResponse } from './client.ts';

/** Returns the path of the file that marks a reset in progress. `tokenFile`: path with symbolic links resolved. */
export const resetMark = (tokenFile: string) => `${tokenFile}.rotating.json`;

/** Maximum number of bytes of a response to keep. A record has about 1,000. */
export const MAX_RECORD_BYTES = 1024 * 1024;

/**
 * Outcome of a reset, with the received part of the response. `answered`: the service confirmed it. `not_done`: the request was
 * not sent or was refused. `unknown`: the token may have been reset. Errors reveal only the status of the response.
 */
export type ResetOutcome = { readonly bytes: Buffer } & (
  | { readonly end: 'answered' }
  | { readonly end: 'not_done' | 'unknown'; readonly error: UpstreamError }
);

export type Connection = Pick<SendDeps, 'dispatcher' | 'timeout'>;

interface RotatorDeps extends Connection {
  readonly baseUrl: string;
  readonly path: string;
  readonly username: string;
  readonly password: Secret;
}

/** Error codes of failed connections: no request was sent. */
const UNSENT = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH|UND_ERR_CONNECT_TIMEOUT)$/;

/** Failure reasons that prove that the token was not reset. */
const REFUSALS: ReadonlySet<Reason> = new Set(['unauthorized', 'forbidden', 'not_found', 'rate_limited', 'refused']);

/** Resets an account's token. Used only by `rotate-token`, never by the agent. */
export function createRotator({ baseUrl, path, username, password, dispatcher, timeout }: RotatorDeps) {
  const what = `POST ${path}`;
  const url = `${baseUrl.replace(/\/+$/, '')}${path}`;

  async function send(keep: (bytes: Buffer) => void, deadline: AbortSignal): Promise<void> {
    if (rotatesKeys(new URL(url).pathname)) throw new UpstreamError('refused', `${what} is never sent`);
    const login = Buffer.from(`${username}:${password.reveal()}`).toString('base64');
    const request = undiciRequest(url, {
      dispatcher,
      method: 'POST',
      // The response is stored as it arrives, so it must not be compressed.
      headers: { accept: 'application/json', 'accept-encoding': 'identity', authorization: `Basic ${login}` },
      signal: deadline,
    });
    const { statusCode: status, body } = await untilAborted(request, deadline);
    let size = 0;
    for await (const bytes of body as AsyncIterable<Buffer>) {
      keep(bytes.subarray(0, MAX_RECORD_BYTES - size));
      size += bytes.length;
      if (size > MAX_RECORD_BYTES) throw new UpstreamError('invalid_response', `${what}: response above 1 MiB`);
    }
    const reason = reasonOfStatus(status);
    if (reason) throw new UpstreamError(reason, `${what}: status ${status}`, { status });
  }

  return {
    /** Requests a reset once. Passes response bytes to `keep` as they arrive; `keep` must not throw. Never rejects. */
    async reset(keep: (bytes: Buffer) => void): Promise<ResetOutcome> {
      const chunks: Buffer[] = [];
      const received = (bytes: Buffer) => {
        chunks.push(bytes);
        keep(bytes);
      };
      try {
        await withDeadline(timeout, new AbortController().signal, deadline => send(received, deadline));
        return { end: 'answered', bytes: Buffer.concat(chunks) };
      } catch (failure) {
        const error = toUpstreamError(failure, what);
        const { code = '' } = (error.cause ?? {}) as { readonly code?: unknown };
        const end = REFUSALS.has(error.reason) || UNSENT.test(String(code)) ? 'not_done' : 'unknown';
        return { end, error, bytes: Buffer.concat(chunks) };
      }
    },
  };
}

/** Result of a token check; an error if the check was inconclusive. */
export type TokenCheckResult = 'accepted' | 'refused' | UpstreamError;

type TokenCheckDeps = Omit<SendDeps, 'clock'> & { readonly clock: Clock; readonly random: () => number };

/** Checks whether the service accepts a token, with the smallest possible read. Transient errors are retried. */
export function createTokenCheck(deps: TokenCheckDeps) {
  const call = withRetry(deps.clock, deps.random, deps.timeout)(createSend(deps));
  return async (token: Secret): Promise<TokenCheckResult> => {
    try {
      await call(
        {
          endpoint: 'dlq',
          method: 'GET',
          address: 'base',
          path: '/v2/dlq',
          template: '/v2/dlq',
          query: new URLSearchParams({ count: '1' }),
          priority: 'background',
          largest: MAX_PAGE_BYTES,
          signal: new AbortController().signal,
        },
        { authorization: `Bearer ${token.reveal()}` },
      );
      return 'accepted';
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error;
      if (error.reason === 'unauthorized') return 'refused';
      // A 403 means that the token is valid but lacks the permission.
      return error.reason === 'forbidden' ? 'accepted' : error;
    }
  };
}
