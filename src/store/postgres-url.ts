import { readFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { type ConnectionOptions, getCACertificates } from 'node:tls';
import type { Env, SecretSetting } from '../kit/secret.ts';
import { StoreError } from './errors.ts';

const DEFAULT_PORT = 5432;

/** Supported libpq parameters (postgresql.org/docs/current/libpq-connect.html). */
const PARAMETERS = ['sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'host'];
/** Value of `sslrootcert` that selects the certificate authorities of the system instead of a file. */
const SYSTEM = 'system';
const MODES = ['disable', 'require', 'verify-ca', 'verify-full'];

const FORM =
  'must be postgres://USER:PASSWORD@HOST:PORT/DATABASE; write / ? # @ % in USER and PASSWORD as %2F %3F %23 %40 %25';

/** Returns what is wrong with a URL, without quoting it; undefined if the URL is valid. */
export function urlError(text: string): string | undefined {
  const url = URL.parse(text);
  if (!url || !['postgres:', 'postgresql:'].includes(url.protocol)) return FORM;
  if (url.hostname === '' && !url.searchParams.get('host')) return 'must name a host';
  if (url.hostname.includes(',')) return 'must name one host';
  if (!/^\/[^/]+$/.test(url.pathname)) return 'must name a database';
  const unknown = [...url.searchParams.keys()].find(name => !PARAMETERS.includes(name));
  if (unknown !== undefined) return `has a parameter that is not one of ${PARAMETERS.join(', ')}`;
  const mode = url.searchParams.get('sslmode');
  if (mode !== null && !MODES.includes(mode)) return `must have an sslmode of ${MODES.join(', ')}`;
  if (mode !== null && mode !== 'verify-full' && url.searchParams.get('sslrootcert') === SYSTEM)
    return 'needs sslmode=verify-full for sslrootcert=system';
  if (mode === 'verify-ca' && !url.searchParams.has('sslrootcert')) return 'needs sslrootcert for sslmode=verify-ca';
  try {
    const parts = [url.username, url.password, url.pathname].map(part => decodeURIComponent(part));
    // PostgreSQL's protocol ends a string at NUL. Using the result also keeps the bundler from dropping the calls, which may throw.
    if (parts.some(part => part.includes('\0'))) return 'must have no %00';
  } catch {
    return 'has a % that does not begin an escape sequence';
  }
  return undefined;
}

/** Like libpq, verifies the server by default if it is to use the authorities of the system. */
const modeOf = (parameters: URLSearchParams): string =>
  parameters.get('sslmode') ?? (parameters.get('sslrootcert') === SYSTEM ? 'verify-full' : 'disable');

/** Returns the files that a valid URL names, by parameter. */
export function tlsFiles(text: string): Map<string, string> {
  const { searchParams } = new URL(text);
  if (modeOf(searchParams) === 'disable') return new Map();
  const names = ['sslrootcert', 'sslcert', 'sslkey'].map(name => [name, searchParams.get(name) ?? ''] as const);
  return new Map(names.filter(([name, file]) => file !== '' && (name !== 'sslrootcert' || file !== SYSTEM)));
}

/** Returns a warning if a connection to another host is unencrypted or accepts any certificate; otherwise undefined. */
export function urlWarning(text: string): string | undefined {
  const { hostname, searchParams } = new URL(text);
  const host = searchParams.get('host') ?? hostname;
  const mode = modeOf(searchParams);
  if (host.startsWith('/') || /^(localhost|127(\.\d+){3}|\[?::1\]?)$/.test(host)) return undefined;
  const others = 'the stored data can be intercepted; use sslmode=verify-full';
  if (mode === 'disable') return `connects to another host without TLS: ${others}`;
  const isUnproven = mode === 'require' && !searchParams.has('sslrootcert');
  return isUnproven ? `accepts any certificate of another host: ${others}, or name sslrootcert` : undefined;
}

function tlsOf(text: string): false | ConnectionOptions {
  const { searchParams } = new URL(text);
  const mode = modeOf(searchParams);
  if (mode === 'disable') return false;
  const files = new Map([...tlsFiles(text)].map(([name, file]) => [name, readPem(name, file)]));
  const isSystem = searchParams.get('sslrootcert') === SYSTEM;
  const ca = isSystem ? [...getCACertificates('default'), ...getCACertificates('system')] : files.get('sslrootcert');
  return {
    ca,
    cert: files.get('sslcert'),
    key: files.get('sslkey'),
    // Like libpq: `require` checks the certificate only if a root certificate is set.
    rejectUnauthorized: mode !== 'require' || ca !== undefined,
    ...(mode === 'verify-full' ? {} : { checkServerIdentity: () => undefined }),
  };
}

function readPem(name: string, file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new StoreError('untrusted', 'PostgreSQL', `the file of ${name} can't be read: ${code}`);
  }
}

export function readUrl(setting: SecretSetting, env: Env): string {
  if ('literal' in setting) return setting.literal.reveal();
  if ('env' in setting) {
    const text = env[setting.env]?.trim();
    if (!text) throw new StoreError('refused', 'PostgreSQL', `the environment variable ${setting.env} is not set`);
    return text;
  }
  try {
    return readFileSync(setting.file, 'utf8').trim();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new StoreError('refused', 'PostgreSQL', `${setting.file} can't be read: ${code}`);
  }
}

/** Returns the operating system's name of this user, the default of libpq. Otherwise, pg would use PGUSER. */
function systemUser(): string {
  try {
    return userInfo().username;
  } catch {
    throw new StoreError('refused', 'PostgreSQL', 'store.url must name a user, because this process has no user name');
  }
}

/** Parses a URL and reads the files that it names. Throws StoreError if the URL is invalid or a file cannot be read. */
export function parseAddress(text: string) {
  const fault = urlError(text);
  if (fault !== undefined) throw new StoreError('refused', 'PostgreSQL', `store.url ${fault}`);
  const { hostname, port, username, password, pathname, searchParams } = new URL(text);
  const decoded = (part: string) => (part === '' ? undefined : decodeURIComponent(part));
  return {
    host: searchParams.get('host') ?? hostname.replace(/^\[(.+)\]$/, '$1'),
    port: Number(port || DEFAULT_PORT),
    database: decodeURIComponent(pathname.slice(1)),
    user: decoded(username) ?? systemUser(),
    password: decoded(password),
    ssl: tlsOf(text),
  };
}
