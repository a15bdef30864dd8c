import { type Dispatcher, request as undiciRequest } from 'undici';
import { type Clock, withDeadline } from '../kit/clock.ts';
import type { Secret } from '../kit/secret.ts';
import { LARGEST_BODY } from './api.ts';
import { withRetry } from './call.ts';
import { type Reason, reasonOfStatus, UpstreamError } from './errors.ts';
import { rotatesKeys } from './options.ts';
import { type Addresses, createSend, toUpstreamError, untilAborted } from './send.ts';

/** Entry point of this module for rotation/ only: token reset, and check of a token. */
export { type AccountAnswer, toAccountAnswer } from './account-record.ts';
export type { Addresses } from './send.ts';
export { resetMark } from './token.ts';

/** Bytes of an answer that are kept. A record is some 1,000. */
export const LARGEST_RECORD = 1024 * 1024;

/** How asking for a reset ended. Errors contain nothing of the answer but its status. */
export type ResetEnd =
  /** With success, and the whole answer was handed over. */
  | { readonly end: 'answered' }
  /** The service has not done it: it was never asked, or it refused. */
  | { readonly end: 'not_done'; readonly error: UpstreamError }
  /** It may have done it or not. */
  | { readonly end: 'unknown'; readonly error: UpstreamError };

/** Resets an account's token and does nothing else. Only the command that does this has one, never the agent. */
export interface Rotator {
  /** Requests a reset once. Passes bytes of the response to `keep`, which must not throw, as they arrive. Never rejects. */
  reset(keep: (bytes: Buffer) => void): Promise<ResetEnd>;
}

export interface Connection {
  readonly dispatcher: Dispatcher;
  /** Milliseconds for a whole request, connecting included. */
  readonly timeout: number;
}

export interface RotatorDeps extends Connection {
  /** Address of the account management, without the path of the operation. */
  readonly baseUrl: string;
  /** Path of the token reset below that address. */
  readonly path: string;
  readonly username: string;
  readonly password: Secret;
}

/** Codes of failures to connect: nothing was sent. */
const UNSENT: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ENETUNREACH',
  'EHOSTUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** Answers of a service that did not do what it was asked. */
const REFUSALS: ReadonlySet<Reason> = new Set(['unauthorized', 'forbidden', 'not_found', 'rate_limited', 'refused']);

function endOf(error: UpstreamError): ResetEnd {
  const cause = error.cause as { readonly code?: unknown } | undefined;
  const isRefused = error.status !== undefined && REFUSALS.has(error.reason);
  return { end: isRefused || UNSENT.has(cause?.code) ? 'not_done' : 'unknown', error };
}

export function createRotator({ baseUrl, path, username, password, dispatcher, timeout }: RotatorDeps): Rotator {
  const what = `POST ${path}`;
  const url = `${baseUrl.replace(/\/+$/, '')}${path}`;

  async function send(keep: (bytes: Buffer) => void, deadline: AbortSignal): Promise<ResetEnd> {
    const login = Buffer.from(`${username}:${password.reveal()}`).toString('base64');
    const request = undiciRequest(url, {
      dispatcher,
      method: 'POST',
      // The answer is stored as it comes, so it shall not come packed.
      headers: { accept: 'application/json', 'accept-encoding': 'identity', authorization: `Basic ${login}` },
      signal: deadline,
    });
    const { statusCode: status, body } = await untilAborted(request, deadline);
    let size = 0;
    for await (const bytes of body as AsyncIterable<Buffer>) {
      keep(bytes.subarray(0, LARGEST_RECORD - size));
      size += bytes.length;
      if (size > LARGEST_RECORD) throw new UpstreamError('invalid_response', `${what}: answer above 1 MiB`);
    }
    const reason = reasonOfStatus(status);
    if (!reason) return { end: 'answered' };
    return endOf(new UpstreamError(reason, `${what}: status ${status}`, { status }));
  }

  return {
    async reset(keep) {
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

/** What the service says of a token; an error where it could not be asked, or said nothing that tells. */
export type TokenVerdict = 'accepted' | 'refused' | UpstreamError;

/** Asks the service whether it takes a token, by the smallest read there is, tried again when it fails for a passing reason. */
export type TokenCheck = (token: Secret) => Promise<TokenVerdict>;

export interface TokenCheckDeps extends Connection {
  readonly addresses: Addresses;
  readonly clock: Clock;
  readonly random: () => number;
}

export function createTokenCheck({ clock, random, ...deps }: TokenCheckDeps): TokenCheck {
  const send = createSend({ ...deps, now: clock.now, onBytes: () => undefined });
  const call = withRetry(clock, random, deps.timeout)(send);
  return async token => {
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
          largest: LARGEST_BODY,
          signal: new AbortController().signal,
        },
        { authorization: `Bearer ${token.reveal()}` },
      );
      return 'accepted';
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error;
      if (error.reason === 'unauthorized') return 'refused';
      // A token without this permission is known all the same.
      return error.reason === 'forbidden' ? 'accepted' : error;
    }
  };
}
