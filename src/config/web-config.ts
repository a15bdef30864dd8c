import { dirname, isAbsolute, join } from 'node:path';
import { z } from 'zod';
import type { WebConfig } from '../http/options.ts';
import { fileStamp } from '../kit/file-stamp.ts';
import { Secret } from '../kit/secret.ts';
import { ConfigError, type LocatedError } from './errors.ts';
import { parseContent } from './parse.ts';
import { readBytes, readText } from './text-file.ts';
import { readTls, tlsServerConfig } from './web-tls.ts';
import { readYaml } from './yaml-file.ts';

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

/** Maximum file size (bytes). Guards against endless devices such as /dev/zero. */
const MAX_FILE_BYTES = 1024 * 1024;

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
  // A truncated file must not disable authentication.
  if ((yaml.content ?? null) === null) {
    const message = 'is empty: must have tls_server_config, basic_auth_users, or both';
    throw new ConfigError([{ ...yaml.locate([]), message }]);
  }
  const { data, errors: faults } = parseContent(webConfigFile, yaml.content, yaml.locate);
  if (!data) throw new ConfigError(faults);
  const errors: LocatedError[] = [];
  const { tls_server_config: tlsSection, basic_auth_users: users } = data;
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
