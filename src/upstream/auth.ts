import type { Call } from './call.ts';
import type { TokenSource } from './token.ts';

/** Each request carries the account's bearer token, asked for anew each time because it may have been changed on disk. */
export const withBearer =
  (token: TokenSource) =>
  (call: Call): Call =>
  async (request, headers) =>
    call(request, { ...headers, authorization: `Bearer ${(await token()).reveal()}` });
