import { StoreError, type StoreReason } from './errors.ts';

/** SQLSTATE codes that say more than their class (postgresql.org/docs/current/errcodes-appendix.html), in our words: PostgreSQL's own name the user. */
const OF_STATE: Readonly<Record<string, readonly [StoreReason, string]>> = {
  '25006': ['standby', 'read-only transaction'],
  '28000': ['refused', 'pg_hba.conf lets this user not in'],
  '28P01': ['refused', 'password authentication failed'],
  '3D000': ['refused', 'there is no such database'],
  '3F000': ['foreign', 'there is no such schema'],
  '42501': ['refused', 'a privilege is missing'],
  '42703': ['foreign', 'a column is missing'],
  '42P01': ['foreign', 'a table is missing'],
  '53100': ['full', 'disk full'],
  '53300': ['away', 'too many connections'],
  '53400': ['full', 'a limit of its configuration is reached'],
  '55P03': ['slow', 'a lock was not to be had'],
  '57014': ['slow', 'statement timeout'],
  '57P01': ['away', 'it shuts down'],
  '57P02': ['away', 'it recovers from a crash'],
  '57P03': ['away', 'it starts, or stops'],
  '40001': ['slow', 'others wrote the same rows'],
  '40P01': ['slow', 'deadlock'],
};

const OF_CLASS: Readonly<Record<string, StoreReason>> = {
  '08': 'away',
  '22': 'invalid',
  '28': 'refused',
  '53': 'full',
  '54': 'invalid',
  '57': 'away',
  '58': 'io',
  XX: 'io',
};

/** What OpenSSL or Node.js say of a certificate. */
const TLS = /CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS|ERR_SSL|EPROTO|HOSTNAME_MISMATCH/;

/** What pg says without a code (pg 8, lib/client.js, lib/connection.js; pg-pool). */
const OF_WORDS: readonly (readonly [RegExp, StoreReason, string])[] = [
  [/read timeout/, 'slow', 'no answer'],
  [/timeout/, 'away', 'no connection in time'],
  [/does not support SSL|SSL connection/, 'untrusted', 'it does not speak TLS'],
  [/terminated|ended|not queryable|pool/, 'away', 'the connection was lost'],
  [/SASL|SCRAM|password/, 'refused', 'a password is missing, or another way to authenticate is asked for'],
];

const codeOf = (error: Error): string | undefined => {
  if ('code' in error && typeof error.code === 'string') return error.code;
  // Of several addresses, each failed.
  const [first] = error instanceof AggregateError ? error.errors : [];
  return first instanceof Error ? codeOf(first) : undefined;
};

function explain(error: Error): readonly [StoreReason, string] | undefined {
  const code = codeOf(error);
  if (code === undefined) {
    const known = OF_WORDS.find(([pattern]) => pattern.test(error.message));
    return known && [known[1], known[2]];
  }
  if (!/^[0-9A-Z]{5}$/.test(code) || code === 'EPIPE') {
    if (TLS.test(code)) return ['untrusted', code];
    return 'syscall' in error || error instanceof AggregateError ? ['away', code] : undefined;
  }
  const known = OF_STATE[code];
  if (known) return [known[0], `PostgreSQL ${code}, ${known[1]}`];
  return [OF_CLASS[code.slice(0, 2)] ?? 'io', `PostgreSQL ${code}`];
}

/** Converts an error to StoreError; bugs are returned as they are. Without a cause: PostgreSQL's messages name users and values. */
export function postgresError(error: unknown, subject: string): unknown {
  if (!(error instanceof Error) || error instanceof StoreError) return error;
  const found = explain(error);
  return found ? new StoreError(found[0], subject, found[1]) : error;
}

/** Errors that are of no statement: whatever else is asked for fails alike. */
const OF_ALL: ReadonlySet<StoreReason> = new Set([
  'away',
  'slow',
  'standby',
  'refused',
  'untrusted',
  'full',
  'foreign',
]);

export const isOfAll = (error: unknown): boolean => error instanceof StoreError && OF_ALL.has(error.reason);
