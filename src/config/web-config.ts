import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { dirname, isAbsolute, join } from 'node:path';
import { createSecureContext } from 'node:tls';
import { z } from 'zod';
import { CLIENT_AUTH, contextOf, type WebConfig, type WebTls } from '../http/options.ts';
import { fileStamp } from '../kit/file-stamp.ts';
import { Secret } from '../kit/secret.ts';
import { ConfigError, type LocatedError, type Path } from './errors.ts';
import { readBytes, readText, tryRead } from './text-file.ts';
import { parseContent, readYaml } from './yaml-file.ts';

const PROTOCOLS = { TLS12: 'TLSv1.2', TLS13: 'TLSv1.3' } as const;

const pemFile = z.string({ error: 'must be the path of a PEM file' }).min(1);

const tlsServerConfig = z.strictObject({
  cert_file: pemFile,
  key_file: pemFile,
  client_auth_type: z.enum(CLIENT_AUTH).default('NoClientCert'),
  client_ca_file: pemFile.optional(),
  min_version: z
    .enum(['TLS12', 'TLS13'], { error: 'must be TLS12 or TLS13; older versions are not supported' })
    .default('TLS12'),
});

type TlsSection = z.output<typeof tlsServerConfig>;

interface TlsDeps {
  readonly read: (path: string) => string;
  error(path: Path, message: string): void;
}

const at = (...keys: string[]) => ['tls_server_config', ...keys];

/** Reads the file that a key names. Returns undefined without the key, and for an unreadable file, which it reports. */
function pemOf(section: TlsSection, key: `${string}_file` & keyof TlsSection, deps: TlsDeps): string | undefined {
  const { [key]: path } = section;
  const found = path === undefined ? undefined : tryRead(() => deps.read(path));
  if (!found || 'content' in found) return found?.content;
  deps.error(at(key), found.wrong);
  return undefined;
}

const CERTIFICATE = /-----BEGIN (TRUSTED |X509 )?CERTIFICATE-----[\s\S]+?-----END \1CERTIFICATE-----/g;

/** Returns all certificates of a PEM text; undefined if any is damaged or none is found. */
export function certificatesIn(pem: string): X509Certificate[] | undefined {
  try {
    const found = [...pem.matchAll(CERTIFICATE)].map(([each]) => new X509Certificate(each));
    return found.length > 0 ? found : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the private key, or why it is unusable. OpenSSL's message is dropped, because it may quote the key. */
export function keyIn(pem: string): KeyObject | string {
  try {
    return createPrivateKey(pem);
  } catch (error) {
    const isEncrypted = (error as NodeJS.ErrnoException).code === 'ERR_MISSING_PASSPHRASE' || /ENCRYPTED/.test(pem);
    return isEncrypted ? 'must be a private key without a passphrase' : 'must have a private key in PEM';
  }
}

const VERIFIES: readonly WebTls['clientAuth'][] = ['VerifyClientCertIfGiven', 'RequireAndVerifyClientCert'];

function checkClientAuth({ client_auth_type: type, client_ca_file: ca }: TlsSection, { error }: TlsDeps): void {
  if (VERIFIES.includes(type) && ca === undefined) {
    error(at('client_auth_type'), `${type} needs client_ca_file, the trusted authorities`);
  }
  if (type === 'NoClientCert' && ca !== undefined) {
    error(at('client_ca_file'), 'needs a client_auth_type, such as RequireAndVerifyClientCert');
  }
}

/** Reads certificate, key and authorities. Reports all errors; returns undefined if an error makes them unusable. */
function readTls(section: TlsSection, deps: TlsDeps): WebTls | undefined {
  const cert = pemOf(section, 'cert_file', deps);
  const key = pemOf(section, 'key_file', deps);
  const ca = pemOf(section, 'client_ca_file', deps);
  checkClientAuth(section, deps);
  const [leaf] = (cert === undefined ? undefined : certificatesIn(cert)) ?? [];
  if (cert !== undefined && !leaf) deps.error(at('cert_file'), 'must have a certificate in PEM');
  if (ca !== undefined && !certificatesIn(ca)) deps.error(at('client_ca_file'), 'must have certificates in PEM');
  const secret = key === undefined ? undefined : keyIn(key);
  if (typeof secret === 'string') deps.error(at('key_file'), secret);
  if (cert === undefined || !leaf || key === undefined || !secret || typeof secret === 'string') return undefined;
  if (!leaf.checkPrivateKey(secret)) {
    deps.error(at('key_file'), 'is not the key of the certificate in cert_file');
    return undefined;
  }
  const tls: WebTls = {
    cert,
    key: new Secret(key),
    minVersion: PROTOCOLS[section.min_version],
    clientAuth: section.client_auth_type,
    clientCa: ca,
  };
  try {
    createSecureContext(contextOf(tls));
  } catch (error) {
    deps.error(at(), `TLS can't be used with these settings: ${(error as NodeJS.ErrnoException).code ?? 'error'}`);
  }
  return tls;
}

/** Maximum bcrypt cost. With this cost, a check takes seconds, and each further step doubles the time. */
const MAX_COST = 15;

const costOf = (hash: string) => Number(hash.slice(4, 6));

const bcryptHash = z.string().superRefine((hash, context) => {
  const fail = (message: string) => context.addIssue({ code: 'custom', message });
  if (!/^\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}$/.test(hash)) {
    fail('must be a bcrypt hash of 60 characters such as $2y$10$…: `htpasswd -nBC 10 USER` prints one');
  } else if (costOf(hash) < 4 || costOf(hash) > MAX_COST) {
    fail(`must have a cost of 4 to ${MAX_COST}, preferably 10 to 12; this is ${costOf(hash)}`);
  }
});

/** The supported subset of exporter-toolkit's web-config file. */
const webConfigFile = z.strictObject({
  tls_server_config: tlsServerConfig.optional(),
  basic_auth_users: z
    .record(z.string().regex(/^[^:]+$/, { error: 'must be a user name without a colon' }), bcryptHash)
    .default({}),
});

/** Maximum file size (bytes). A mistaken path may name a huge file. */
export const MAX_FILE_BYTES = 1024 * 1024;

/** Reads a web-config file and the files that it names. Throws ConfigError with all errors, without secrets. */
export function readWebConfig(file: string): { config: WebConfig; warnings: readonly LocatedError[] } {
  /** `fileStamp` of each file. Recorded before reading, to detect changes during and after the read. */
  const stamps = new Map<string, string>();
  const read = <T>(path: string, readFile: (path: string, maxBytes: number) => T): T => {
    stamps.set(path, fileStamp(path));
    return readFile(path, MAX_FILE_BYTES);
  };
  const yaml = readYaml(read(file, readText), file);
  if (yaml.errors.length > 0) throw new ConfigError(yaml.errors);
  const { data, errors: faults } = parseContent(webConfigFile, yaml.content ?? {}, yaml.locate);
  if (!data) throw new ConfigError(faults);
  const errors: LocatedError[] = [];
  const { tls_server_config: tlsSection, basic_auth_users: users } = data;
  // zod drops this key, and a port without users admits every request.
  if (Object.hasOwn(Object((yaml.content as { basic_auth_users?: unknown } | null)?.basic_auth_users), '__proto__')) {
    throw new ConfigError([
      { ...yaml.locate(['basic_auth_users', '__proto__']), message: 'must be another user name' },
    ]);
  }
  // A truncated file must not disable authentication.
  if (!tlsSection && Object.keys(users).length === 0) {
    const message = 'sets nothing: must have tls_server_config, basic_auth_users with a user, or both';
    throw new ConfigError([{ ...yaml.locate([]), message }]);
  }
  const resolveName = (name: string) => (isAbsolute(name) ? name : join(dirname(file), name));
  const tls =
    tlsSection &&
    readTls(tlsSection, {
      read: name => read(resolveName(name), readBytes).toString('latin1'),
      error: (path, message) => void errors.push({ ...yaml.locate(path), message }),
    });
  const isPlain = Object.keys(users).length > 0 && !tlsSection;
  const message = 'passwords are sent unencrypted without tls_server_config';
  const warnings = isPlain ? [{ ...yaml.locate(['basic_auth_users']), message }] : [];
  if (errors.length > 0) throw new ConfigError(errors, warnings);
  const secrets = Object.entries(users).map(([user, hash]) => [user, new Secret(hash)] as const);
  return { config: { tls, users: new Map(secrets), stamps }, warnings };
}
