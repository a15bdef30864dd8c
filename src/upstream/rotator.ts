import { type Dispatcher, request as undiciRequest } from 'undici';
import { type Clock, withDeadline } from '../kit/clock.ts';
import type { Secret } from '../kit/secret.ts';
import { MAX_PAGE_BYTES } from './body.ts';
import { withRetry } from './call.ts';
import { type Reason, reasonOfStatus, UpstreamError } from './errors.ts';
import { rotatesKeys } from './options.ts';
import { createSend, type SendDeps, toUpstreamError, untilAborted } from './send.ts';

/** Public entry point of this module for rotation/: token reset and token check. */
export { parseResetResponse, type ResetResponse } from './account-record.ts';
export type { Addresses } from './send.ts';
export { resetMark } from './token.ts';

/** Maximum number of bytes of a response to keep. A record has about 1,000. */
export const MAX_RECORD_BYTES = 1024 * 1024;

/** Outcome of a reset. Its errors reveal only the status of the response. */
export type ResetOutcome =
  /** The service confirmed the reset, and the complete response was passed on. */
  | { readonly end: 'answered' }
  /** The service did not reset the token: the request was not sent or was refused. */
  | { readonly end: 'not_done'; readonly error: UpstreamError }
  /** The service may have reset the token. */
  | { readonly end: 'unknown'; readonly error: UpstreamError };

export interface Connection {
  readonly dispatcher: Dispatcher;
  /** Timeout of a request, including connecting (ms). */
  readonly timeout: number;
}

export interface RotatorDeps extends Connection {
  readonly baseUrl: string;
  readonly path: string;
  readonly username: string;
  readonly password: Secret;
}

/** Error codes of failed connections: no request was sent. */
const UNSENT: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ENETUNREACH',
  'EHOSTUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** Failure reasons that prove that the token was not reset. */
const REFUSALS: ReadonlySet<Reason> = new Set(['unauthorized', 'forbidden', 'not_found', 'rate_limited', 'refused']);

function endOf(error: UpstreamError): ResetOutcome {
  const cause = error.cause as { readonly code?: unknown } | undefined;
  const isRefused = error.status !== undefined && REFUSALS.has(error.reason);
  return { end: isRefused || UNSENT.has(cause?.code) ? 'not_done' : 'unknown', error };
}

/** Resets an account's token. Used only by `rotate-token`, never by the agent. */
export function createRotator({ baseUrl, path, username, password, dispatcher, timeout }: RotatorDeps) {
  const what = `POST ${path}`;
  const url = `${baseUrl.replace(/\/+$/, '')}${path}`;

  async function send(keep: (bytes: Buffer) => void, deadline: AbortSignal): Promise<ResetOutcome> {
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
    if (!reason) return { end: 'answered' };
    return endOf(new UpstreamError(reason, `${what}: status ${status}`, { status }));
  }

  return {
    /** Requests a reset once. Passes response bytes to `keep` as they arrive; `keep` must not throw. Never rejects. */
    async reset(keep: (bytes: Buffer) => void): Promise<ResetOutcome> {
      if (rotatesKeys(new URL(url).pathname)) {
        return { end: 'not_done', error: new UpstreamError('refused', `${what} is never sent`) };
      }
      try {
        return await withDeadline(timeout, new AbortController().signal, deadline => send(keep, deadline));
      } catch (error) {
        return endOf(toUpstreamError(error, what));
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
