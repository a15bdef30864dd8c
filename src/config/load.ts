import { createHash } from 'node:crypto';
import { accessSync, constants, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { z } from 'zod';
import { faultOfProxy, faultOfSecret } from '../upstream/options.ts';
import { overBudget } from './forecast.ts';
import { allowedKeys } from './json-schema.ts';
import { Config } from './schema.ts';
import { type Fault, type Place, readYaml, type YamlFile } from './yaml-file.ts';

/** A configuration that can't be used. The message has one line per fault, `FILE:line:column: path: what is allowed`. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly faults: readonly Fault[];

  constructor(faults: readonly Fault[]) {
    super(faults.map(formatFault).join('\n'));
    this.faults = faults;
  }
}

export interface LoadedConfig {
  readonly file: string;
  readonly config: Config;
  /** First 16 hexadecimal digits of the SHA-256 of all its files. */
  readonly hash: string;
  /** Things that work and should be otherwise. */
  readonly warnings: readonly Fault[];
}

type Env = Readonly<Record<string, string | undefined>>;

export function formatFault({ file, line, column, path, message }: Fault): string {
  return `${file}:${line}:${column}: ${path === '' ? '' : `${path}: `}${message}`;
}

function isReadable(file: string): boolean {
  try {
    accessSync(file, constants.R_OK);
    return true;
  } catch {
    return false;
  }
}

function formatPath(path: readonly PropertyKey[]): string {
  return path
    .map(step => (typeof step === 'number' ? `[${step}]` : `.${String(step)}`))
    .join('')
    .replace(/^\./, '');
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const why = (error as NodeJS.ErrnoException).code ?? 'error';
    throw new ConfigError([{ file, line: 1, column: 1, path: '', message: `can't be read: ${why}` }]);
  }
}

/** Reads and checks a configuration file. Throws ConfigError with every fault. `env` holds what `{ env: NAME }` names. */
export function loadConfig(file: string, env: Env): LoadedConfig {
  return parseConfig(readText(file), file, env);
}

/** As `loadConfig`, of text that is at hand; files that it names are sought from the folder of `file`. */
export function parseConfig(text: string, file: string, env: Env): LoadedConfig {
  const main = readYaml(text, file);
  const hash = createHash('sha256').update(text);
  const warnings: Fault[] = [];
  const faults = [...main.faults];

  const { content } = main;
  const isMapping = typeof content === 'object' && content !== null && !Array.isArray(content);
  const raw: Record<string, unknown> = isMapping ? { ...content } : {};
  /** Whose account each is, and its number there. */
  const owners: { yaml: YamlFile; index: number }[] = [];
  if (Array.isArray(raw.accounts)) for (const index of raw.accounts.keys()) owners.push({ yaml: main, index });
  for (const [number, pattern] of (Array.isArray(raw.accountFiles) ? raw.accountFiles : []).entries()) {
    const found = typeof pattern === 'string' ? globSync(pattern, { cwd: dirname(file) }).sort() : [];
    if (found.length === 0 && typeof pattern === 'string') {
      const path = ['accountFiles', number];
      warnings.push({ ...main.place(path), path: formatPath(path), message: 'there is no such file' });
    }
    for (const name of found) {
      const path = join(dirname(file), name);
      const more = readText(path);
      hash.update(more);
      const yaml = readYaml(more, path);
      faults.push(...yaml.faults);
      if (yaml.faults.length === 0 && !Array.isArray(yaml.content)) {
        faults.push({ ...yaml.place([]), path: '', message: 'must be a list of accounts' });
      }
      if (!Array.isArray(yaml.content)) continue;
      for (const index of yaml.content.keys()) owners.push({ yaml, index });
      raw.accounts = [...(Array.isArray(raw.accounts) ? raw.accounts : []), ...yaml.content];
    }
  }
  if (faults.length > 0) throw new ConfigError(faults);

  /** Where a path of the whole configuration stands, in whichever file. */
  function locate(path: readonly PropertyKey[], key?: string): Place & { readonly path: string } {
    const [section, number, ...rest] = path;
    const owner = section === 'accounts' && typeof number === 'number' ? owners[number] : undefined;
    const own = owner && owner.yaml !== main ? [owner.index, ...rest] : path;
    const place = (owner?.yaml ?? main).place(own, key);
    return { ...place, path: formatPath(key === undefined ? own : [...own, key]) };
  }

  const parsed = Config.safeParse(isMapping ? raw : (content ?? {}));
  if (!parsed.success) throw new ConfigError(parsed.error.issues.flatMap(issue => toFaults(issue, locate)));
  const config = parsed.data;
  const fault = (path: readonly PropertyKey[], message: string): Fault => ({ ...locate(path), message });
  for (const [index, account] of config.accounts.entries()) {
    const path = ['accounts', index, 'token'];
    const { token } = account;
    const wrong = faultOfSecret(token, env);
    if (wrong) faults.push(fault(path, wrong));
    if ('file' in token && !isReadable(token.file)) warnings.push(fault(path, `${token.file} can't be read now`));
    if ('literal' in token) {
      warnings.push(fault(path, 'the token stands in the file; { env: NAME } or { file: PATH } keep it out'));
    }
    const tooDear = overBudget(account);
    if (tooDear) warnings.push(fault(['accounts', index, 'budget', 'requestsPerDay'], tooDear));
  }
  // What an account does not override is said once, where it stands.
  const upstreams = [config.upstream, ...config.accounts.map(({ upstream }) => upstream)];
  for (const [number, upstream] of upstreams.entries()) {
    const path = number === 0 ? ['upstream'] : ['accounts', number - 1, 'upstream'];
    const differs = (key: 'proxy' | 'caFile') => number === 0 || upstream[key] !== config.upstream[key];
    const noProxy = upstream.proxy && differs('proxy') ? faultOfProxy(upstream.proxy, env) : undefined;
    if (noProxy) faults.push(fault([...path, 'proxy'], noProxy));
    if (upstream.caFile !== null && differs('caFile') && !isReadable(upstream.caFile)) {
      faults.push(fault([...path, 'caFile'], `${upstream.caFile} can't be read`));
    }
  }
  if (faults.length > 0) throw new ConfigError(faults);
  return { file, config, hash: hash.digest('hex').slice(0, 16), warnings };
}

function toFaults(
  issue: z.core.$ZodIssue,
  locate: (path: readonly PropertyKey[], key?: string) => Place & { readonly path: string },
): Fault[] {
  const { path } = issue;
  if (issue.code === 'unrecognized_keys') {
    const allowed = allowedKeys(path).join(', ');
    return issue.keys.map(key => ({ ...locate(path, key), message: `unknown key; allowed here: ${allowed}` }));
  }
  // The key of a record that its schema does not take: what is wrong with it stands one level below.
  if (issue.code === 'invalid_key') return issue.issues.flatMap(({ message }) => ({ ...locate(path), message }));
  const missing = issue.code === 'invalid_type' && issue.message.endsWith('received undefined');
  const message = missing
    ? `is required: ${issue.message.replace(/, received undefined$/, '').replace(/^Invalid input: /, '')}`
    : issue.message;
  return [{ ...locate(path), message: message.replace(/^Invalid input: /, '') }];
}
