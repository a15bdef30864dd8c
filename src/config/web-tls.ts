import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { z } from 'zod';
import { CLIENT_AUTH, contextOf, type WebTls } from '../http/options.ts';
import { Secret } from '../kit/secret.ts';
import type { Path } from './errors.ts';
import { tryRead } from './text-file.ts';

const PROTOCOLS = { TLS12: 'TLSv1.2', TLS13: 'TLSv1.3' } as const;

const pemFile = z.string({ error: 'must be the path of a PEM file' }).min(1);

export const tlsServerConfig = z.strictObject({
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

/** Reads the file that a key names; undefined if the key is not set or the file is unreadable, which is reported. */
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
export function readTls(section: TlsSection, deps: TlsDeps): WebTls | undefined {
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
