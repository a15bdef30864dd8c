import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { Secret } from '../../src/kit/secret.ts';
import { attachStore, openStore } from '../../src/store/open.ts';
import { runCli } from '../support/cli.ts';
import { newFolder } from '../support/folder.ts';
import { postgresForTests, postgresIsThere } from '../support/postgres.ts';
import { freePort } from '../support/prometheus.ts';

const certificate = (name: string) => join('test/support/certificates', name);
const text = (name: string) => readFileSync(certificate(name), 'utf8');
const CANARY = 'canary-of-the-database';

describe.skipIf(!postgresIsThere())('unavailable or unsuitable PostgreSQL', () => {
  const postgres = postgresForTests({
    settings: { ssl: 'on', ssl_cert_file: 'server.pem', ssl_key_file: 'server.key' },
    files: { 'server.pem': text('server.pem'), 'server.key': text('server.key') },
  });

  const settings = (url: string, schema = 'delivery_watch') => ({
    kind: 'postgres' as const,
    path: '',
    url: { literal: new Secret(url) },
    schema,
  });

  /** Returns the error message, with the port replaced by PORT, or `none` if the store opens. */
  async function refusal(url: string, { schema = 'delivery_watch', open = openStore } = {}): Promise<string> {
    try {
      const store = await open(settings(url, schema));
      await store.close();
    } catch (error) {
      expect(error).toMatchObject({ name: 'StoreError' });
      const { message, stack, cause } = error as Error;
      for (const each of [message, String(stack), JSON.stringify(error)]) expect(each).not.toMatch(/canary|watcher/);
      expect(cause).toBeUndefined();
      return message.replaceAll(String(postgres().port), 'PORT');
    }
    return 'none';
  }

  it('error messages name the server, but no user or password', async () => {
    const server = postgres();
    const url = await server.createDatabase();
    const name = new URL(url).pathname.slice(1);
    const at = `PostgreSQL 127.0.0.1:PORT/${name}`;
    const role = 'check user, password and database of store.url, and the privileges in docs/store.md';
    expect(await refusal(url.replace(CANARY, 'canary-wrong'))).toBe(
      `${at} refuses this role (PostgreSQL 28P01, password authentication failed): ${role}`,
    );
    expect(await refusal(url.replace(`:${CANARY}`, ''))).toMatch(/refuses this role \(.*password/);
    expect(await refusal(server.url('nothing'))).toBe(
      `PostgreSQL 127.0.0.1:PORT/nothing refuses this role (PostgreSQL 3D000, the database does not exist): ${role}`,
    );
    const free = String(await freePort());
    expect((await refusal(url.replace(String(server.port), free))).replace(free, 'FREE')).toBe(
      `PostgreSQL 127.0.0.1:FREE/${name} can't be reached (ECONNREFUSED): check that it is running, its address and the network; a running agent then recovers automatically`,
    );
    expect(await refusal(url.replace('127.0.0.1', 'nowhere.invalid'))).toMatch(
      /can't be reached \((ENOTFOUND|EAI_AGAIN)\)/,
    );
  });

  it('the certificate is verified according to sslmode', async () => {
    const url = await postgres().createDatabase();
    const authority = (name: string) => `sslrootcert=${encodeURIComponent(join(process.cwd(), certificate(name)))}`;
    const named = url.replace('127.0.0.1', 'localhost');
    expect(await refusal(`${url}?sslmode=require`)).toBe('none');
    expect(await refusal(`${named}?sslmode=verify-full&${authority('authority.pem')}`)).toBe('none');
    expect(await refusal(`${url}?sslmode=verify-ca&${authority('authority.pem')}`)).toBe('none');
    for (const rest of [
      'sslmode=verify-full',
      `sslmode=verify-full&${authority('other-authority.pem')}`,
      `sslmode=verify-ca&${authority('other-authority.pem')}`,
      `sslmode=require&${authority('other-authority.pem')}`,
    ]) {
      expect(await refusal(`${named}?${rest}`)).toMatch(
        /could not be verified as the right server \([A-Z_]+\): check sslmode and sslrootcert of store.url/,
      );
    }
    expect(await refusal(`${url}?sslmode=verify-full&sslrootcert=/nowhere.pem`)).toMatch(/can't be read: ENOENT/);
    const [row] = await postgres().query('SHOW ssl');
    expect(row).toEqual({ ssl: 'on' });
  });

  it('only the URL determines the connection: variables of libpq have no effect', async () => {
    const url = await postgres().createDatabase();
    onTestFinished(() => void vi.unstubAllEnvs());
    vi.stubEnv('PGOPTIONS', '-c default_transaction_read_only=on');
    vi.stubEnv('PGREPLICATION', 'database');
    vi.stubEnv('PGSSLNEGOTIATION', 'direct');
    vi.stubEnv('PGSSLMODE', 'no-verify');
    vi.stubEnv('PGAPPNAME', 'canary');
    vi.stubEnv('PGPASSWORD', CANARY);
    vi.stubEnv('PGUSER', 'postgres');
    expect(await refusal(url)).toBe('none');
    expect(await refusal(`${url}?sslmode=verify-full`)).toMatch(/could not be verified/);
    expect(await refusal(url.replace(`:${CANARY}`, ''))).toMatch(/password/);
    expect(await refusal(url.replace(`postgres:${CANARY}@`, ''))).toMatch(/password/);
  });

  it('the URL is read from the environment or from a file', async () => {
    const url = await postgres().createDatabase();
    const file = join(newFolder(), 'url');
    writeFileSync(file, `${url}\n`);
    for (const setting of [{ env: 'URL' }, { file }]) {
      const store = await openStore({ ...settings(url), url: setting }, { env: { URL: url } });
      await store.command([{ key: 'k', value: 'v' }]);
      await store.close();
    }
    await expect(openStore({ ...settings(url), url: { env: 'URL' } })).rejects.toThrow('URL is not set');
    await expect(openStore({ ...settings(url), url: { file: '/nowhere' } })).rejects.toThrow(
      "/nowhere can't be read: ENOENT",
    );
    await expect(openStore({ ...settings(url), url: { env: 'URL' } }, { env: { URL: 'x:canary' } })).rejects.toThrow(
      /^PostgreSQL refuses this role \(store.url must be postgres:\/\/USER:PASSWORD@HOST:PORT\/DATABASE; write/,
    );
  });

  it('schemas of other programs or versions, and databases with other encodings, are refused and left unchanged', async () => {
    const server = postgres();
    const url = await server.createDatabase();
    const name = new URL(url).pathname.slice(1);
    await server.query('CREATE SCHEMA theirs; CREATE TABLE theirs.rows (n int)', name);
    expect(await refusal(url, { schema: 'theirs' })).toMatch(
      /^the schema theirs of .* is a database of another program:/,
    );
    await server.query('CREATE TABLE theirs.schema_version (n int)', name);
    expect(await refusal(url, { schema: 'theirs' })).toMatch(/is a database of another program/);
    expect(await server.query('SELECT count(*)::int AS n FROM theirs.rows', name)).toEqual([{ n: 0 }]);

    expect(await refusal(url, { open: attachStore })).toMatch(/^the schema delivery_watch of .* does not exist: start/);
    expect(await refusal(url)).toBe('none');
    expect(await refusal(url, { open: attachStore })).toBe('none');
    await server.query("INSERT INTO delivery_watch.schema_version VALUES ('delivery-watch', 99)", name);
    expect(await refusal(url)).toMatch(/was written by a newer version \(schema 99, this version has \d+\)/);
    expect(await refusal(url, { open: attachStore })).toMatch(/was written by a newer version/);
    await server.query('UPDATE delivery_watch.schema_version SET version = 1 WHERE version = 99', name);
    await server.query('DELETE FROM delivery_watch.schema_version WHERE version > 1', name);
    expect(await refusal(url)).toMatch(/was written by an older version \(schema 1, this version has 3\)/);
    expect(await refusal(url, { open: attachStore })).toMatch(/was written by an older version/);

    await server.query("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    expect(await refusal(server.url('latin'))).toMatch(/can't store all text \(LATIN1\): create the database with/);
  });

  it('the store needs few privileges: its own schema, or the right to create one', async () => {
    const server = postgres();
    const url = await server.createDatabase();
    const name = new URL(url).pathname.slice(1);
    await server.query(`CREATE ROLE watcher LOGIN PASSWORD '${CANARY}'`);
    const own = server.url(name, 'watcher');
    expect(await refusal(own)).toMatch(/refuses this role \(PostgreSQL 42501, a privilege is missing\)/);
    await server.query('CREATE SCHEMA delivery_watch AUTHORIZATION watcher', name);
    expect(await refusal(own)).toBe('none');
    expect(await refusal(own, { schema: 'other' })).toMatch(/42501/);
    await server.query(`GRANT CREATE ON DATABASE ${name} TO watcher`);
    expect(await refusal(own, { schema: 'other' })).toBe('none');
  });

  it('commits are rejected while the server is read-only, and accepted again afterwards', async () => {
    const server = postgres();
    const url = await server.createDatabase();
    const name = new URL(url).pathname.slice(1);
    const store = await openStore(settings(url));
    const readOnly = async (value: string) => {
      await server.query(`ALTER DATABASE ${name} SET default_transaction_read_only = ${value}`);
      await server.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`);
    };
    try {
      await readOnly('on');
      const commit = () => store.command([{ key: 'k', value: 'v' }]);
      await expect(commit().catch(commit)).rejects.toMatchObject({
        reason: 'standby',
        message: expect.stringContaining("can't be written: it is a standby, or read-only"),
      });
      expect(await store.scan('', '')).toEqual(new Map());
      await readOnly('off');
      await commit().catch(commit);
      expect((await store.scan('', '')).size).toBe(1);
    } finally {
      await store.close();
    }
  });
});

it('check-config rejects a store URL with an unescaped password', async () => {
  const file = join(newFolder(), 'config.yaml');
  const accounts = [{ name: 'a', baseUrl: 'http://127.0.0.1:1', token: { env: 'TOKEN' } }];
  writeFileSync(file, JSON.stringify({ accounts, store: { kind: 'postgres', url: { env: 'URL' } } }));
  const { code, stderr } = await runCli(['check-config', file], { TOKEN: 'x', URL: 'postgres://u:can%ary@h/d' });
  expect(code).toBe(2);
  expect(stderr).toContain('store.url: the environment variable URL has a % that does not begin an escape sequence');
});
