import { dirname, isAbsolute, join } from 'node:path';
import { z } from 'zod';
import { CLIENT_AUTH, type WebConfig } from '../http/options.ts';
import { systemClock } from '../kit/clock.ts';
import { fileStamp } from '../kit/file-stamp.ts';
import { Secret } from '../kit/secret.ts';
import { ConfigError, type LocatedError, type Path } from './errors.ts';
import { parseContent } from './parse.ts';
import { readBytes, readText } from './text-file.ts';
import { readTls } from './web-tls.ts';
import { readYaml } from './yaml-file.ts';

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
  basic_auth_users: z
    .record(z.string().regex(/^[^:]+$/, { error: 'must be a user name without a colon' }), bcryptHash)
    .default({}),
});

/** Maximum file size (bytes). Guards against endless devices such as /dev/zero. */
const MAX_FILE_BYTES = 1024 * 1024;

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
  /** `fileStamp` of each file. Recorded before reading, to detect changes during and after the read. */
  const stamps = new Map<string, string>();
  const read = <T>(path: string, readFile: (path: string, maxBytes: number) => T): T => {
    stamps.set(path, fileStamp(path));
    return readFile(path, MAX_FILE_BYTES);
  };
  const yaml = readYaml(read(file, readText), file);
  if (yaml.errors.length > 0) throw new ConfigError(yaml.errors);
  // A truncated file must not disable authentication.
  if ((yaml.content ?? null) === null) {
    const message = 'is empty: must have tls_server_config, basic_auth_users, or both';
    throw new ConfigError([{ ...yaml.locate([]), message }]);
  }
  const { data, errors: faults } = parseContent(webConfigFile, yaml.content, yaml.locate);
  if (!data) throw new ConfigError(faults);
  const errors: LocatedError[] = [];
  const warnings: LocatedError[] = [];
  const into = (list: LocatedError[]) => (path: Path, message: string) =>
    void list.push({ ...yaml.locate(path), message });
  const { tls_server_config: tlsSection, basic_auth_users: users } = data;
  const resolveName = (name: string) => (isAbsolute(name) ? name : join(dirname(file), name));
  const tls =
    tlsSection &&
    readTls(tlsSection, {
      read: name => read(resolveName(name), readBytes).toString('latin1'),
      now,
      error: into(errors),
      warn: into(warnings),
    });
  checkUsers(users, tlsSection !== undefined, into(warnings));
  if (errors.length > 0) throw new ConfigError(errors, warnings);
  return {
    config: {
      tls,
      users: new Map(Object.entries(users).map(([user, hash]) => [user, new Secret(hash)])),
      stamps,
    },
    warnings,
  };
}
