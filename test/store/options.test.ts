import { describe, expect, it } from 'vitest';
import { parseConfig } from '../../src/config/load.ts';
import { storeOptions } from '../../src/store/options.ts';

const CA = 'test/support/certificates/authority.pem';
const FORM =
  'must be postgres://USER:PASSWORD@HOST:PORT/DATABASE; write / ? # @ % in USER and PASSWORD as %2F %3F %23 %40 %25';

describe('store options', () => {
  it('the default store is an SQLite file', () => {
    expect(storeOptions.parse({})).toEqual({
      kind: 'sqlite',
      path: './data/delivery-watch.db',
      url: null,
      schema: 'delivery_watch',
      lease: 15_000,
      history: { keep: 48 * 3_600_000, maxMB: 100 },
    });
    expect(storeOptions.parse({ history: { keep: '0s', maxMB: 1 } }).history).toEqual({ keep: 0, maxMB: 1 });
  });

  it.each([
    'postgres://u:p@h/d',
    'postgresql://h:5433/d?sslmode=verify-full&sslrootcert=/ca.pem',
    'postgres:///d?host=/run/postgresql',
    'postgres://u@[::1]:5432/d',
  ])('store options accept and redact the store URL %s', url => {
    const options = storeOptions.parse({ kind: 'postgres', url });
    expect(JSON.stringify(options)).toContain('"url":{"literal":"<secret>"}');
  });

  it.each([
    [{ kind: 'mysql' }, 'must be sqlite, memory or postgres'],
    [{ kind: 'postgres' }, 'is required for store.kind: postgres'],
    [{ kind: 'postgres', url: 'mysql://u:canary@h/d' }, FORM],
    [{ kind: 'postgres', url: 'canary' }, FORM],
    [{ kind: 'postgres', url: 'postgres:///canary' }, 'must name a host'],
    [{ kind: 'postgres', url: 'postgres://u:canary@a,b/d' }, 'must name one host'],
    [{ kind: 'postgres', url: 'postgres://u:canary@h' }, 'must name a database'],
    [{ kind: 'postgres', url: 'postgres://u:can%ary@h/d' }, 'has a % that does not begin an escape sequence'],
    [{ kind: 'postgres', url: 'postgres://u:can#ary@h/d' }, FORM],
    [{ kind: 'postgres', url: 'postgres://u:canary%00@h/d' }, 'must have no %00'],
    [
      { kind: 'postgres', url: 'postgres://u:canary@h/d?canary=1' },
      'has a parameter that is not one of sslmode, sslrootcert, sslcert, sslkey, host',
    ],
    [
      { kind: 'postgres', url: 'postgres://u:canary@h/d?sslmode=prefer' },
      'must have an sslmode of disable, require, verify-ca, verify-full',
    ],
    [{ kind: 'postgres', url: 'postgres://u:canary@h/d?sslmode=verify-ca' }, 'needs sslrootcert for sslmode=verify-ca'],
    [
      { kind: 'postgres', url: 'postgres://u:canary@h/d?sslmode=require&sslrootcert=system' },
      'needs sslmode=verify-full for sslrootcert=system',
    ],
    [{ url: 'postgres://u:canary@h/d' }, 'must be postgres if store.url is set'],
    [{ schema: 'Mine' }, 'must be 1 to 63 of a-z, 0-9 and _, and not begin with a digit'],
    [{ schema: 'pg_mine' }, 'must not begin with pg_'],
    [{ lease: '4s' }, 'must be from 5s to 5m'],
    [{ lease: '301s' }, 'must be from 5s to 5m'],
    [{ path: '' }, 'must be the path of a file'],
    [{ path: 'a\0b' }, 'must be the path of a file'],
    [{ history: { maxMB: 0 } }, 'must be a whole number from 1 to 100000'],
    [{ history: { maxMB: 1.5 } }, 'must be a whole number from 1 to 100000'],
    [
      { history: { keep: 'long' } },
      'must be a duration: a whole number and one of ms, s, m, h, d, such as 500ms, 15s or 4h, at most 366d',
    ],
    [{ file: 'x' }, 'Unrecognized key: "file"'],
  ])('the store options %j are rejected', (options, message) => {
    expect(storeOptions.safeParse(options).error?.issues.map(issue => issue.message)).toEqual([message]);
  });
});

const PLAIN = 'connects to another host without TLS: the stored data can be intercepted; use sslmode=verify-full';
const UNPROVEN =
  'connects to another host and accepts any certificate: the stored data can be intercepted; use sslmode=verify-full, or set sslrootcert';

it.each([
  ['postgres://db.example/d', PLAIN],
  ['postgres://db.example/d?sslmode=disable', PLAIN],
  ['postgres://db.example/d?sslmode=require', UNPROVEN],
  ['postgres://127.db.example/d', PLAIN],
  ['postgres://localhost/d?host=db.example&sslmode=require', UNPROVEN],
  [`postgres://db.example/d?sslmode=require&sslrootcert=${CA}`, undefined],
  [`postgres://db.example/d?sslmode=verify-ca&sslrootcert=${CA}`, undefined],
  ['postgres://db.example/d?sslmode=verify-full&sslrootcert=system', undefined],
  ['postgres://db.example/d?sslmode=verify-full', undefined],
  ['postgres://localhost/d', undefined],
  ['postgres://127.0.0.1/d?sslmode=require', undefined],
  ['postgres://[::1]/d', undefined],
  ['postgres:///d?host=/var/run/postgresql', undefined],
])(
  'parseConfig warns about store.url %s if it does not verify the certificate of a remote host: %s',
  (url, warning) => {
    const text = JSON.stringify({
      store: { kind: 'postgres', url: { env: 'URL' } },
      accounts: [{ name: 'a', baseUrl: 'https://h.example', token: { env: 'T' } }],
    });
    const { warnings } = parseConfig(text, 'x.yaml', { T: 't', URL: url });
    expect(warnings.filter(({ path }) => path === 'store.url').map(({ message }) => message)).toEqual(
      warning === undefined ? [] : [warning],
    );
  },
);
