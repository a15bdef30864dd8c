import { globSync, readFileSync } from 'node:fs';
import { glob } from 'node:fs/promises';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import type { Env } from '../kit/secret.ts';
import { urlError } from '../store/options.ts';
import type { Path, Reporter } from './errors.ts';
import type { Config } from './schema.ts';
import { FOR_ROTATION, secretIn, secretsOf, storeUrl, upstreamValues, writtenSecrets } from './secrets.ts';
import { readBytes, tryRead } from './text-file.ts';
import { certificatesIn, keyIn, MAX_FILE_BYTES, readWebConfig } from './web-config.ts';

/** A file that a setting names. The files in server.webConfigFile are read by `readWebConfig`. */
export interface NamedFile {
  readonly path: Path;
  readonly file: string;
  readonly content: 'secret' | 'certificates' | 'private key';
  /** Describes the file in messages. Default: its path. */
  readonly label?: string;
  /** Kind of a secret, for messages: `token`, for example. */
  readonly what?: string;
  /** Whether the agent can run without the file, which only `rotate-token` needs. */
  readonly isOptional?: boolean | undefined;
  /** Whether a change of the file causes a reload. Other files are read again when they are used. */
  readonly isWatched?: boolean;
}

/** Parameters of the store's URL that name files, and their contents. */
const STORE_FILES: Readonly<Record<string, NamedFile['content']>> = {
  sslrootcert: 'certificates',
  sslcert: 'certificates',
  sslkey: 'private key',
};

/** Returns the files that the store's URL names. Their paths are not shown, because they are part of a secret. */
function storeFiles(config: Config, env: Env): NamedFile[] {
  const url = storeUrl(config, env);
  if (!url || urlError(url)) return [];
  return [...new URL(url).searchParams].flatMap(([name, file]): NamedFile[] => {
    const content = STORE_FILES[name];
    if (content === undefined || file === 'system') return [];
    return [{ path: ['store', 'url'], file, content, label: `the file of ${name}` }];
  });
}

/**
 * Returns all files that settings name: `checkFiles` reads them, the agent watches some of them, and `doctor` checks the permissions
 * of files with secrets. Without `env`, omits files that the store's URL names.
 */
export const namedFiles = (config: Config, env?: Env): readonly NamedFile[] => [
  ...secretsOf(config).flatMap(({ path, setting, what, isOptional }): NamedFile[] =>
    'file' in setting ? [{ path, file: setting.file, content: 'secret', what, isOptional }] : [],
  ),
  ...upstreamValues(config, 'caFile').flatMap(({ path, value: file }): NamedFile[] =>
    file === null ? [] : [{ path, file, content: 'certificates', isWatched: true }],
  ),
  ...(env ? storeFiles(config, env) : []),
];

/** Returns why a file cannot be used, or undefined. */
function errorOf({ file, content, what }: NamedFile): string | undefined {
  const found =
    content === 'secret' ? secretIn(file, what) : tryRead(() => readBytes(file, MAX_FILE_BYTES).toString('latin1'));
  if ('wrong' in found) return found.wrong;
  if (typeof found.content !== 'string') return undefined;
  if (content === 'private key') {
    const key = keyIn(found.content);
    return typeof key === 'string' ? key : undefined;
  }
  if (certificatesIn(found.content)) return undefined;
  return 'must have certificates in PEM, which begin with -----BEGIN CERTIFICATE-----';
}

/** Reads all named files and reports errors. */
export function checkFiles(config: Config, env: Env, report: Reporter): void {
  for (const named of namedFiles(config, env)) {
    const wrong = errorOf(named);
    if (wrong === undefined) continue;
    const { path, file, label = file, isOptional } = named;
    if (isOptional) report.warn(path, `${label} ${wrong}${FOR_ROTATION}`);
    else report.error(path, `${label} ${wrong}`);
  }
}

/** Resolves file names that are relative to the folder of the configuration `file`. */
const placed = (names: readonly string[], file: string) =>
  [...names].sort().map(name => (isAbsolute(name) ? name : join(dirname(file), name)));

/** Returns the files that a pattern matches. The pattern is relative to the folder of `file`. */
export const filesOf = (pattern: string, file: string) => placed(globSync(pattern, { cwd: dirname(file) }), file);

/** Returns the configuration file and its account files in loading order. Asynchronous, because a file system may be slow. */
export async function ownFiles(file: string, { accountFiles }: Config): Promise<readonly string[]> {
  const found: string[] = [];
  for (const pattern of accountFiles) {
    const names: string[] = [];
    for await (const name of glob(pattern, { cwd: dirname(file) })) names.push(name);
    found.push(...placed(names, file));
  }
  return [file, ...new Map(found.map(path => [resolve(path), path])).values()];
}

/** Returns the files that contain secrets: tokens, passwords and their hashes, and keys. */
export function filesWithSecrets(file: string, config: Config, env: Env): readonly string[] {
  const own = [file, ...config.accountFiles.flatMap(pattern => filesOf(pattern, file))];
  const named = namedFiles(config, env).filter(({ content }) => content !== 'certificates');
  const { webConfigFile } = config.server;
  const ofPort = webConfigFile === null ? [] : [...readWebConfig(webConfigFile).config.stamps.keys()];
  const isSecret = (each: string) => /PRIVATE KEY|\$2[aby]\$/.test(readFileSync(each, 'utf8'));
  return [
    ...new Set([
      ...(writtenSecrets(config).length > 0 ? own : []),
      ...named.map(each => each.file),
      ...ofPort.filter(isSecret),
    ]),
  ];
}
