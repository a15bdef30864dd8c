import { readFileSync } from 'node:fs';
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

/** Returns the error in a URL, without quoting the URL; undefined if the URL is valid. */
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
  if (url.searchParams.get('sslrootcert') === SYSTEM && mode !== 'verify-full')
    return 'needs sslmode=verify-full for sslrootcert=system';
  if (mode === 'verify-ca' && !url.searchParams.has('sslrootcert')) return 'needs sslrootcert for sslmode=verify-ca';
  try {
    const parts = [url.username, url.password, url.pathname].map(part => decodeURIComponent(part));
    // PostgreSQL's protocol ends strings at NUL. Using the result keeps the bundler from dropping the calls, which may throw.
    if (parts.some(part => part.includes('\0'))) return 'must have no %00';
  } catch {
    return 'has a % that does not begin an escape sequence';
  }
  return undefined;
}

/** Returns a warning if a connection to another host is unencrypted or accepts any certificate; otherwise undefined. */
export function urlWarning(text: string): string | undefined {
  const { hostname, searchParams } = new URL(text);
  const host = searchParams.get('host') ?? hostname;
  const mode = searchParams.get('sslmode') ?? 'disable';
  if (host.startsWith('/') || /^(localhost|127(\.\d+){3}|\[?::1\]?)$/.test(host)) return undefined;
  const others = 'the stored data can be intercepted; use sslmode=verify-full';
  if (mode === 'disable') return `connects to another host without TLS: ${others}`;
  const isUnproven = mode === 'require' && !searchParams.has('sslrootcert');
  return isUnproven ? `connects to another host and accepts any certificate: ${others}, or set sslrootcert` : undefined;
}

function tlsOf(parameters: URLSearchParams): false | ConnectionOptions {
  const mode = parameters.get('sslmode') ?? 'disable';
  if (mode === 'disable') return false;
  const read = (name: string) => {
    const file = parameters.get(name);
    if (name === 'sslrootcert' && file === SYSTEM)
      return [...getCACertificates('default'), ...getCACertificates('system')];
    return file === null ? undefined : readFileSync(file, 'utf8');
  };
  const ca = read('sslrootcert');
  return {
    ca,
    cert: read('sslcert'),
    key: read('sslkey'),
    // Like libpq: `require` checks the certificate only if a root certificate is set.
    rejectUnauthorized: mode !== 'require' || ca !== undefined,
    ...(mode === 'verify-full' ? {} : { checkServerIdentity: () => undefined }),
  };
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

/** Parses a URL and reads the files that it names. Throws StoreError if the URL is invalid or a file cannot be read. */
export function parseAddress(text: string) {
  const fault = urlError(text);
  if (fault !== undefined) throw new StoreError('refused', 'PostgreSQL', `store.url ${fault}`);
  const { hostname, port, username, password, pathname, searchParams } = new URL(text);
  const decoded = (part: string) => (part === '' ? undefined : decodeURIComponent(part));
  try {
    return {
      host: searchParams.get('host') ?? hostname.replace(/^\[(.+)\]$/, '$1'),
      port: Number(port || DEFAULT_PORT),
      database: decodeURIComponent(pathname.slice(1)),
      // Otherwise, pg would prefer PGUSER.
      user: decoded(username) ?? process.env.USER,
      password: decoded(password),
      ssl: tlsOf(searchParams),
    };
  } catch (error) {
    const { code, syscall } = error as NodeJS.ErrnoException;
    if (syscall === undefined) throw error;
    throw new StoreError(
      'untrusted',
      'PostgreSQL',
      `the file of sslrootcert, sslcert or sslkey can't be read: ${code}`,
    );
  }
}
