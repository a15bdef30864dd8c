import { readFileSync, statSync } from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';
import { z } from 'zod';
import { CLIENT_AUTH, type WebConfig } from '../http/options.ts';
import { systemClock } from '../kit/clock.ts';
import { fileStamp } from '../kit/file-stamp.ts';
import { Secret } from '../kit/secret.ts';
import { byLocation, ConfigError, type LocatedError, type Path, readErrorText, toErrors } from './errors.ts';
import { createAllowedKeys } from './json-schema.ts';
import { parseAll, valueAt } from './parse-all.ts';
import { CIPHERS, CURVES, readTls, VERSIONS } from './web-tls.ts';
import { readYaml } from './yaml-file.ts';

const text = z.string().min(1);
const version = z.enum(VERSIONS, { error: 'must be TLS12 or TLS13; older versions are not supported' });
const names = (table: Readonly<Record<string, string>>) => z.array(z.enum(Object.keys(table))).min(1);

const tlsServerConfig = z.strictObject({
  cert_file: text.optional(),
  key_file: text.optional(),
  cert: text.optional(),
  key: text.optional(),
  client_auth_type: z.enum(CLIENT_AUTH).default('NoClientCert'),
  client_ca_file: text.optional(),
  client_ca: text.optional(),
  client_allowed_sans: z.array(text).min(1).optional(),
  min_version: version.default('TLS12'),
  max_version: version.default('TLS13'),
  cipher_suites: names(CIPHERS).optional(),
  prefer_server_cipher_suites: z.boolean().default(true),
  curve_preferences: names(CURVES).optional(),
});

const headerText = z.string().regex(/^[\t\x20-\x7e]*$/, { error: 'must be visible ASCII characters and blanks' });
const oneOf = (...values: string[]) =>
  z.enum(['', ...values], { error: `must be ${values.join(' or ')}, or empty to omit the header` });

const httpServerConfig = z.strictObject({
  http2: z
    .literal(false, { error: 'must be false or omitted: the server speaks HTTP/1.1 and does not support HTTP/2' })
    .default(false),
  headers: z
    .strictObject({
      'Content-Security-Policy': headerText.optional(),
      'X-Frame-Options': oneOf('deny', 'sameorigin').optional(),
      'X-Content-Type-Options': oneOf('nosniff').optional(),
      'X-XSS-Protection': headerText.optional(),
      'Strict-Transport-Security': headerText.optional(),
    })
    .prefault({}),
});

const GO_UNITS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};
const NO_DURATION = 'must be a duration such as 100ms, 1s or 1m30s, or 0 for no limit';

/** Parses a duration in Go's notation to milliseconds. */
const goDuration = z.union([z.literal(0), z.string()], { error: NO_DURATION }).transform((value, context) => {
  if (value === 0 || value === '0') return 0;
  if (/^(\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+$/.test(value)) {
    return [...value.matchAll(/([\d.]+)(\D+)/g)].reduce(
      (sum, [, n, unit = '']) => sum + Number(n) * (GO_UNITS[unit] ?? 0),
      0,
    );
  }
  context.addIssue({ code: 'custom', message: NO_DURATION });
  return z.NEVER;
});

/** Maximum bcrypt cost. With this cost, a check takes seconds, and each further step doubles the time. */
const MAX_COST = 15;
/** Range of costs that cause no warning. Lower costs make stolen hashes easy to crack; higher ones make checks slow. */
const [LOW_COST, HIGH_COST] = [10, 12];

const costOf = (hash: string) => Number(hash.slice(4, 6));

const bcryptHash = z.string().superRefine((hash, context) => {
  const fail = (message: string) => context.addIssue({ code: 'custom', message });
  if (!/^\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}$/.test(hash)) {
    fail('must be a bcrypt hash of 60 characters such as $2y$10$…: `htpasswd -nBC 10 USER` prints one');
  } else if (costOf(hash) < 4 || costOf(hash) > MAX_COST) {
    fail(`must have a cost of 4 to ${MAX_COST}, preferably ${LOW_COST} to ${HIGH_COST}; this is ${costOf(hash)}`);
  }
});

/** The supported subset of exporter-toolkit's web-config file. */
const webConfigFile = z.strictObject({
  tls_server_config: tlsServerConfig.optional(),
  http_server_config: httpServerConfig.prefault({}),
  basic_auth_users: z
    .record(z.string().regex(/^[^:]+$/, { error: 'must be a user name without a colon' }), bcryptHash)
    .default({}),
  rate_limit: z
    .strictObject({ interval: goDuration.default(0), burst: z.int().min(0).default(0) })
    .refine(({ interval, burst }) => interval === 0 || burst > 0, {
      path: ['burst'],
      error: 'must be at least 1 if interval is not 0',
    })
    .optional(),
});

/** Maximum file size (bytes). Guards against endless devices such as /dev/zero. */
const MAX_FILE_BYTES = 1024 * 1024;

function createFiles() {
  const stamps = new Map<string, string>();
  return {
    stamps,
    read(path: string): string {
      // Record the stamp before reading, to detect changes during and after the read.
      stamps.set(path, fileStamp(path));
      try {
        if (statSync(path).size <= MAX_FILE_BYTES) return readFileSync(path, 'utf8');
      } catch (error) {
        throw new Error(readErrorText(error));
      }
      throw new Error(`can't be read: it has more than ${MAX_FILE_BYTES} bytes`);
    },
  };
}

function checkUsers(
  users: Readonly<Record<string, string>>,
  hasTls: boolean,
  warn: (path: Path, message: string) => void,
): void {
  for (const [user, hash] of Object.entries(users)) {
    const cost = costOf(hash);
    const path = ['basic_auth_users', user];
    if (cost < LOW_COST) warn(path, `has a cost of ${cost}: below ${LOW_COST}, a stolen hash is fast to guess`);
    if (cost > HIGH_COST)
      warn(path, `has a cost of ${cost}: above ${HIGH_COST}, the first request of a client takes seconds`);
  }
  if (Object.keys(users).length > 0 && !hasTls) {
    warn(['basic_auth_users'], 'passwords are sent unencrypted without tls_server_config');
  }
}

/** Reads a web-config file and the files that it names. Throws ConfigError with all errors, without secrets. */
export function readWebConfig(
  file: string,
  now = systemClock.now(),
): { config: WebConfig; warnings: readonly LocatedError[] } {
  const files = createFiles();
  let content: string;
  try {
    content = files.read(file);
  } catch (error) {
    throw new ConfigError([
      { file, line: 1, column: 1, path: '', message: error instanceof Error ? error.message : '' },
    ]);
  }
  const yaml = readYaml(content, file);
  const [errors, warnings] = [[...yaml.errors], [] as LocatedError[]];
  const into = (list: LocatedError[]) => (path: Path, message: string) => {
    if (!parsed.isOmitted(path)) list.push({ ...yaml.locate(path), message });
  };
  const parsed = parseAll(webConfigFile, yaml.content ?? {});
  const allowed = createAllowedKeys(webConfigFile);
  for (const issue of parsed.issues) {
    if (issue.code !== 'unrecognized_keys' && !yaml.isSure(issue.path)) continue;
    errors.push(...toErrors(issue, yaml.locate, allowed, path => valueAt(yaml.content, path)));
  }
  // A truncated file must not disable authentication.
  if ((yaml.content ?? null) === null && errors.length === 0) {
    errors.push({ ...yaml.locate([]), message: 'is empty: must have tls_server_config, basic_auth_users, or both' });
  }
  const { data } = parsed;
  // Values after a syntax error are unreliable.
  const { tls_server_config: tlsSection, basic_auth_users: users = {} } = (!yaml.isBroken && data) || {};
  const resolveName = (name: string) => (isAbsolute(name) ? name : join(dirname(file), name));
  const tls =
    tlsSection &&
    readTls(tlsSection, {
      read: name => files.read(resolveName(name)),
      now,
      error: into(errors),
      warn: into(warnings),
    });
  checkUsers(users, tlsSection !== undefined, into(warnings));
  if (errors.length > 0 || !data) throw new ConfigError(errors.toSorted(byLocation), warnings);
  const { interval, burst } = data.rate_limit ?? { interval: 0, burst: 0 };
  return {
    config: {
      tls,
      headers: new Map(
        Object.entries(data.http_server_config.headers).flatMap(([name, value]) => (value ? [[name, value]] : [])),
      ),
      users: new Map(Object.entries(users).map(([user, hash]) => [user, new Secret(hash)])),
      rateLimit: interval === 0 ? undefined : { interval, burst },
      stamps: files.stamps,
    },
    warnings,
  };
}
