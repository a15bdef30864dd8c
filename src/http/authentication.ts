import type { IncomingMessage } from 'node:http';
import { clientName } from './client-certs.ts';
import type { WebConfig } from './options.ts';
import type { Credentials, PasswordResult, Passwords } from './passwords.ts';

/** The authenticated caller (a user, or the name in a verified certificate), or a refusal. */
export type Authenticated =
  | { readonly isRefused: false; readonly caller: string | undefined }
  | { readonly isRefused: true; readonly status: number; readonly text: string; readonly headers: Headers };

type Headers = Readonly<Record<string, string>>;

export type Authenticate = (request: IncomingMessage, web: WebConfig) => Authenticated | Promise<Authenticated>;

const refuse = (status: number, text: string, headers: Headers = {}): Authenticated => ({
  isRefused: true,
  status,
  text,
  headers,
});

const UNAUTHORIZED = refuse(401, 'unauthorized', {
  'WWW-Authenticate': 'Basic realm="delivery-watch", charset="UTF-8"',
});

const REFUSALS: Readonly<Record<Exclude<PasswordResult, 'right'>, Authenticated>> = {
  wrong: UNAUTHORIZED,
  crowded: refuse(429, 'too many passwords of this client are being checked', { 'Retry-After': '1' }),
  full: refuse(503, 'too many passwords are being checked', { 'Retry-After': '1' }),
};

/** Returns the credentials of an Authorization header; undefined if it contains no Basic credentials. */
function credentialsOf(header: string | undefined): Credentials | undefined {
  const [, encoded] = /^basic +([\w+/=-]+)$/i.exec(header ?? '') ?? [];
  const text = Buffer.from(encoded ?? '', 'base64').toString();
  const colon = text.indexOf(':');
  return colon < 0 ? undefined : { user: text.slice(0, colon), password: text.slice(colon + 1) };
}

export function createAuthentication(passwords: Passwords): Authenticate {
  return ({ headers, socket }, { users }) => {
    if (users.size === 0) return { isRefused: false, caller: clientName(socket) };
    const given = credentialsOf(headers.authorization);
    if (!given) return UNAUTHORIZED;
    const toOutcome = (verdict: PasswordResult): Authenticated =>
      verdict === 'right' ? { isRefused: false, caller: given.user } : REFUSALS[verdict];
    const verdict = passwords.check(users, given, socket.remoteAddress ?? '');
    return typeof verdict === 'string' ? toOutcome(verdict) : verdict.then(toOutcome);
  };
}
