import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { contextOf, REQUIRES_CERT, type WebTls } from '../http/options.ts';
import { Secret } from '../kit/secret.ts';
import type { Path } from './errors.ts';

/** OpenSSL's names of cipher suites by their names in Go. */
export const CIPHERS: Readonly<Record<string, string>> = {
  TLS_AES_128_GCM_SHA256: 'TLS_AES_128_GCM_SHA256',
  TLS_AES_256_GCM_SHA384: 'TLS_AES_256_GCM_SHA384',
  TLS_CHACHA20_POLY1305_SHA256: 'TLS_CHACHA20_POLY1305_SHA256',
  TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA: 'ECDHE-ECDSA-AES128-SHA',
  TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA: 'ECDHE-ECDSA-AES256-SHA',
  TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA: 'ECDHE-RSA-AES128-SHA',
  TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA: 'ECDHE-RSA-AES256-SHA',
  TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256: 'ECDHE-ECDSA-AES128-GCM-SHA256',
  TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384: 'ECDHE-ECDSA-AES256-GCM-SHA384',
  TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256: 'ECDHE-RSA-AES128-GCM-SHA256',
  TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384: 'ECDHE-RSA-AES256-GCM-SHA384',
  TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256: 'ECDHE-RSA-CHACHA20-POLY1305',
  TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256: 'ECDHE-ECDSA-CHACHA20-POLY1305',
};

export const CURVES: Readonly<Record<string, string>> = {
  CurveP256: 'P-256',
  CurveP384: 'P-384',
  CurveP521: 'P-521',
  X25519: 'X25519',
};

export const VERSIONS = ['TLS12', 'TLS13'] as const;
const PROTOCOLS = { TLS12: 'TLSv1.2', TLS13: 'TLSv1.3' } as const;

type Version = (typeof VERSIONS)[number];
type Named = 'cert' | 'key' | 'client_ca';

interface TlsSection extends Readonly<Partial<Record<Named | `${Named}_file`, string | undefined>>> {
  readonly client_auth_type: WebTls['clientAuth'];
  readonly client_allowed_sans?: readonly string[] | undefined;
  readonly min_version: Version;
  readonly max_version: Version;
  readonly cipher_suites?: readonly string[] | undefined;
  readonly prefer_server_cipher_suites: boolean;
  readonly curve_preferences?: readonly string[] | undefined;
}

interface TlsDeps {
  readonly read: (path: string) => string;
  /** Milliseconds since the Unix epoch. */
  readonly now: number;
  error(path: Path, message: string): void;
  warn(path: Path, message: string): void;
}

const at = (...keys: string[]) => ['tls_server_config', ...keys];

/** Returns PEM text from the section or its file, and the key that contains it. */
function pemOf(section: TlsSection, name: Named, { read, error }: TlsDeps): { key: string; pem: string } | undefined {
  const { [name]: inline, [`${name}_file` as const]: path } = section;
  if (inline !== undefined && path !== undefined) error(at(name), `must not be set together with ${name}_file`);
  else if (inline !== undefined) return { key: name, pem: inline };
  else if (path !== undefined) {
    try {
      return { key: `${name}_file`, pem: read(path) };
    } catch (failure) {
      error(at(`${name}_file`), failure instanceof Error ? failure.message : '');
    }
  } else if (name !== 'client_ca') error(at(), `must have ${name}_file or ${name}`);
  return undefined;
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g;

/** Returns all certificates of a PEM text; undefined if any is damaged or none is found. */
function certificatesIn(pem: string): X509Certificate[] | undefined {
  try {
    const found = [...pem.matchAll(CERTIFICATE)].map(([each]) => new X509Certificate(each));
    return found.length > 0 ? found : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the private key, or why it is unusable. OpenSSL's message is dropped, because it may quote the key. */
function keyIn(pem: string): KeyObject | string {
  try {
    return createPrivateKey(pem);
  } catch (error) {
    const isEncrypted = (error as NodeJS.ErrnoException).code === 'ERR_MISSING_PASSPHRASE' || /ENCRYPTED/.test(pem);
    return isEncrypted ? 'must be a private key without a passphrase' : 'must have a private key in PEM';
  }
}

function checkDates({ validFromDate, validToDate }: X509Certificate, path: Path, { now, warn }: TlsDeps): void {
  if (validToDate.getTime() < now) warn(path, `the certificate expired at ${validToDate.toISOString()}`);
  if (validFromDate.getTime() > now) warn(path, `the certificate is not valid before ${validFromDate.toISOString()}`);
}

const VERIFIES: readonly WebTls['clientAuth'][] = ['VerifyClientCertIfGiven', 'RequireAndVerifyClientCert'];

function checkClientAuth(section: TlsSection, hasCa: boolean, { error, warn }: TlsDeps): void {
  const { client_auth_type: type, client_allowed_sans: sans } = section;
  if (VERIFIES.includes(type) && !hasCa) {
    error(at('client_auth_type'), `${type} needs client_ca_file or client_ca, the trusted authorities`);
  }
  if (type === 'NoClientCert' && hasCa) {
    error(
      at(section.client_ca ? 'client_ca' : 'client_ca_file'),
      'needs a client_auth_type, such as RequireAndVerifyClientCert',
    );
  }
  if (sans && !REQUIRES_CERT.includes(type)) {
    error(at('client_allowed_sans'), 'needs client_auth_type RequireAndVerifyClientCert or RequireAnyClientCert');
  }
  if (type !== 'NoClientCert' && !VERIFIES.includes(type)) {
    warn(at('client_auth_type'), `${type} accepts any certificate, even a self-signed one`);
  }
}

function protocolsOf({ min_version: min, max_version: max }: TlsSection, { error }: TlsDeps) {
  if (VERSIONS.indexOf(min) > VERSIONS.indexOf(max)) {
    error(at('min_version'), `is ${min}, but must be at most max_version, ${max}`);
  }
  return { minVersion: PROTOCOLS[min], maxVersion: PROTOCOLS[max] };
}

/** Reads certificate, key and authorities. Reports all errors; returns undefined if an error makes them unusable. */
export function readTls(section: TlsSection, deps: TlsDeps): WebTls | undefined {
  const [cert, key, ca] = [
    pemOf(section, 'cert', deps),
    pemOf(section, 'key', deps),
    pemOf(section, 'client_ca', deps),
  ];
  checkClientAuth(section, (section.client_ca ?? section.client_ca_file) !== undefined, deps);
  const versions = protocolsOf(section, deps);
  const [leaf] = (cert && certificatesIn(cert.pem)) ?? [];
  if (cert && !leaf) deps.error(at(cert.key), 'must have a certificate in PEM');
  if (cert && leaf) checkDates(leaf, at(cert.key), deps);
  if (ca && !certificatesIn(ca.pem)) deps.error(at(ca.key), 'must have certificates in PEM');
  const secret = key && keyIn(key.pem);
  if (key && typeof secret === 'string') deps.error(at(key.key), secret);
  if (!cert || !leaf || !key || !secret || typeof secret === 'string') return undefined;
  if (!leaf.checkPrivateKey(secret)) {
    deps.error(at(key.key), `is not the key of the certificate in ${cert.key}`);
    return undefined;
  }
  const named = (list: readonly string[] | undefined, table: Readonly<Record<string, string>>) =>
    list?.map(name => table[name]).join(':');
  const tls: WebTls = {
    ...versions,
    cert: cert.pem,
    key: new Secret(key.pem),
    ciphers: named(section.cipher_suites, CIPHERS),
    curves: named(section.curve_preferences, CURVES),
    prefersServerCiphers: section.prefer_server_cipher_suites,
    clientAuth: section.client_auth_type,
    clientCa: ca?.pem,
    allowedSans: section.client_allowed_sans,
  };
  try {
    createSecureContext(contextOf(tls));
  } catch (error) {
    deps.error(at(), `TLS can't be used with these settings: ${(error as NodeJS.ErrnoException).code ?? 'error'}`);
  }
  return tls;
}
