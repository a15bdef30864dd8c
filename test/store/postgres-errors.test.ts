import { expect, it } from 'vitest';
import { postgresError } from '../../src/store/postgres-errors.ts';

/** Texts of PgBouncer 1.18 to 1.23. */
it.each([
  [
    '08P01',
    'unsupported startup parameter: application_name',
    /refuses .*set ignore_startup_parameters = application_name/,
  ],
  ['08P01', 'unsupported startup parameter in options: canary', /refuses .*set ignore_startup_parameters/],
  ['08P01', 'transaction blocks not allowed in statement pooling mode', /set pool_mode = transaction or session/],
  ['26000', 'prepared statement "canary" does not exist', /set pool_mode = session, or set max_prepared_statements/],
  ['42P05', 'prepared statement "canary" already exists', /set pool_mode = session, or set max_prepared_statements/],
  ['08P01', 'no such database: canary', /refuses .*has no such database or user/],
  ['08P01', 'no such user: canary', /refuses .*has no such database or user/],
  ['08P01', 'SSL required', /could not be verified .*set sslmode=verify-full/],
  ['08P01', 'query_wait_timeout', /can't be reached/],
  ['08P01', 'pgbouncer cannot connect to server', /can't be reached/],
])("PgBouncer's error %s, %s, names the remedy and no part of the text", (code, text, message) => {
  const error = postgresError(Object.assign(new Error(text), { code }), 'PostgreSQL h:5432/d') as Error;
  expect(error.message).toMatch(message);
  expect(error.message).not.toContain('canary');
});
