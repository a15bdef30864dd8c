import { StoreError, type StoreReason } from './errors.ts';

/** SQLSTATE codes (postgresql.org/docs/current/errcodes-appendix.html). PostgreSQL's own messages would name the user. */
const REASON_BY_SQLSTATE: Readonly<Record<string, readonly [StoreReason, string]>> = {
  '25006': ['standby', 'read-only transaction'],
  '28000': ['refused', 'pg_hba.conf rejects this user'],
  '28P01': ['refused', 'password authentication failed'],
  '3D000': ['refused', 'the database does not exist'],
  '3F000': ['foreign', 'the schema does not exist'],
  '42501': ['refused', 'a privilege is missing'],
  '42703': ['foreign', 'a column is missing'],
  '42P01': ['foreign', 'a table is missing'],
  '53100': ['full', 'disk full'],
  '53300': ['away', 'too many connections'],
  '53400': ['full', 'a configured limit is reached'],
  '55P03': ['slow', 'lock not available'],
  '57014': ['slow', 'statement timeout'],
  '57P01': ['away', 'it is shutting down'],
  '57P02': ['away', 'it is recovering from a crash'],
  '57P03': ['away', 'it is starting or stopping'],
  '40001': ['slow', 'concurrent writes to the same rows'],
  '40P01': ['slow', 'deadlock'],
};

const REASON_BY_CLASS: Readonly<Record<string, StoreReason>> = {
  '08': 'away',
  '22': 'invalid',
  '28': 'refused',
  '53': 'full',
  '54': 'invalid',
  '57': 'away',
  '58': 'io',
  XX: 'io',
};

/** Codes of certificate errors from OpenSSL and Node.js. */
const TLS = /CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS|ERR_SSL|EPROTO|HOSTNAME_MISMATCH/;

/** SQLSTATE of PgBouncer's own errors and of prepared statements that it has lost. */
const PGBOUNCER = ['08P01', '26000', '42P05'];

/** Reasons by message, for errors of PgBouncer and of pg without a code (pg 8, lib/client.js, lib/connection.js; pg-pool). */
const REASON_BY_MESSAGE: readonly (readonly [RegExp, StoreReason, string])[] = [
  [/startup parameter/, 'refused', 'set ignore_startup_parameters = application_name in PgBouncer'],
  [/prepared statement/, 'refused', 'in PgBouncer, set pool_mode = session, or set max_prepared_statements'],
  [/statement pooling/, 'refused', 'set pool_mode = transaction or session in PgBouncer'],
  [/no such (?:database|user)/, 'refused', 'PgBouncer has no such database or user'],
  [/SSL required/, 'untrusted', 'PgBouncer requires TLS: set sslmode=verify-full in store.url'],
  [/read timeout/, 'slow', 'no response'],
  [/timeout/, 'away', 'no connection in time'],
  [/does not support SSL|SSL connection/, 'untrusted', 'it does not support TLS'],
  [/terminated|ended|not queryable|pool/, 'away', 'the connection was lost'],
  [/SASL|SCRAM|password/, 'refused', 'a password is missing, or another authentication method is required'],
];

const codeOf = (error: Error): string | undefined => {
  if ('code' in error && typeof error.code === 'string') return error.code;
  // Connecting to each of several addresses failed: use the first error.
  const [first] = error instanceof AggregateError ? error.errors : [];
  return first instanceof Error ? codeOf(first) : undefined;
};

function explain(error: Error): readonly [StoreReason, string] | undefined {
  const code = codeOf(error);
  if (code === undefined || PGBOUNCER.includes(code)) {
    const known = REASON_BY_MESSAGE.find(([pattern]) => pattern.test(error.message));
    if (known || code === undefined) return known && [known[1], known[2]];
  }
  if (!/^[0-9A-Z]{5}$/.test(code) || code === 'EPIPE') {
    if (TLS.test(code)) return ['untrusted', code];
    return 'syscall' in error || error instanceof AggregateError ? ['away', code] : undefined;
  }
  const known = REASON_BY_SQLSTATE[code];
  if (known) return [known[0], `PostgreSQL ${code}, ${known[1]}`];
  return [REASON_BY_CLASS[code.slice(0, 2)] ?? 'io', `PostgreSQL ${code}`];
}

/**
 * Converts database errors to StoreError, and returns bugs unchanged. Drops the cause, because PostgreSQL's messages contain
 * user names and values.
 */
export function postgresError(error: unknown, subject: string): unknown {
  if (!(error instanceof Error) || error instanceof StoreError) return error;
  const found = explain(error);
  return found ? new StoreError(found[0], subject, found[1]) : error;
}

/** Reasons that concern the database rather than a statement: any other statement would fail, too. */
const AFFECTING_ALL: readonly StoreReason[] = ['away', 'slow', 'standby', 'refused', 'untrusted', 'full', 'foreign'];

export const affectsAll = (error: unknown) => error instanceof StoreError && AFFECTING_ALL.includes(error.reason);
