import { createHash } from 'node:crypto';
import { accessSync, constants, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { z } from 'zod';
import { faultOfHeader } from '../telemetry/options.ts';
import { faultOfProxy, faultOfSecret, type SecretSetting } from '../upstream/options.ts';
import { faultsOfAlerts } from './alerts.ts';
import { accountMayAct, faultsOfAutoCancel } from './auto-cancel.ts';
import { overBudget } from './forecast.ts';
import { allowedKeys } from './json-schema.ts';
import { plainHttpWarnings } from './plain-http.ts';
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

export function formatPath(path: readonly PropertyKey[]): string {
  return path
    .map(step => (typeof step === 'number' ? `[${step}]` : `.${String(step)}`))
    .join('')
    .replace(/^\./, '');
}

/** Throws ConfigError when the file can't be read. */
export function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const why = (error as NodeJS.ErrnoException).code ?? 'error';
    throw new ConfigError([{ file, line: 1, column: 1, path: '', message: `can't be read: ${why}` }]);
  }
}

/**
 * Reads and checks a configuration file. Throws ConfigError with every fault. `env` holds what `{ env: NAME }` names;
 * without it nothing is looked for there, for those who need no secret.
 */
export function loadConfig(file: string, env?: Env): LoadedConfig {
  return parseConfig(readText(file), file, env);
}

/** As `loadConfig`, of text that is at hand; files that it names are sought from the folder of `file`. */
export function parseConfig(text: string, file: string, env?: Env): LoadedConfig {
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
  if (!parsed.success)
    throw new ConfigError(parsed.error.issues.flatMap(issue => toFaults(issue, locate, allowedKeys)));
  const config = parsed.data;
  const fault = (path: readonly PropertyKey[], message: string): Fault => ({ ...locate(path), message });
  function checkToken(token: SecretSetting, path: readonly PropertyKey[]): void {
    const wrong = env && faultOfSecret(token, env);
    if (wrong) faults.push(fault(path, wrong));
    if ('file' in token && !isReadable(token.file)) warnings.push(fault(path, `${token.file} can't be read now`));
    if ('literal' in token) {
      warnings.push(fault(path, 'the token stands in the file; { env: NAME } or { file: PATH } keep it out'));
    }
  }
  for (const [index, account] of config.accounts.entries()) {
    const path = ['accounts', index, 'token'];
    const { token, actionToken } = account;
    checkToken(token, path);
    const actionPath = ['accounts', index, 'actionToken'];
    if (accountMayAct(config, account.name)) {
      if (actionToken) checkToken(actionToken, actionPath);
      else warnings.push(fault(actionPath, 'is not set: the reading token is used to act'));
    }
    const password = account.management?.password;
    const passwordPath = ['accounts', index, 'management', 'password'];
    // The agent does well without it, and may run where nobody has it.
    const noPassword = password && env && faultOfSecret(password, env);
    if (noPassword) warnings.push(fault(passwordPath, `${noPassword}: rotate-token will need it`));
    if (password && 'literal' in password) {
      warnings.push(
        fault(passwordPath, 'the password stands in the file; { env: NAME } or { file: PATH } keep it out'),
      );
    }
    const tooDear = overBudget(account);
    if (tooDear) warnings.push(fault(['accounts', index, 'budget', 'requestsPerDay'], tooDear));
  }
  for (const { path, message } of plainHttpWarnings(config)) warnings.push(fault(path, message));
  // What an account does not override is said once, where it stands.
  const upstreams = [config.upstream, ...config.accounts.map(({ upstream }) => upstream)];
  for (const [number, upstream] of upstreams.entries()) {
    const path = number === 0 ? ['upstream'] : ['accounts', number - 1, 'upstream'];
    const differs = (key: 'proxy' | 'caFile') => number === 0 || upstream[key] !== config.upstream[key];
    const noProxy = env && upstream.proxy && differs('proxy') ? faultOfProxy(upstream.proxy, env) : undefined;
    if (noProxy) faults.push(fault([...path, 'proxy'], noProxy));
    if (upstream.caFile !== null && differs('caFile') && !isReadable(upstream.caFile)) {
      faults.push(fault([...path, 'caFile'], `${upstream.caFile} can't be read`));
    }
  }
  for (const [name, value] of Object.entries(config.tracing.headers)) {
    const wrong = env && config.tracing.enabled ? faultOfHeader(value, env) : undefined;
    if (wrong) faults.push(fault(['tracing', 'headers', name], wrong));
  }
  for (const [index, { webhook }] of config.alerts.notifiers.entries()) {
    const path = ['alerts', 'notifiers', index, 'webhook', 'secret'];
    const wrong = webhook?.secret && env && faultOfSecret(webhook.secret, env);
    if (wrong) faults.push(fault(path, wrong));
    if (webhook?.secret && 'literal' in webhook.secret) {
      warnings.push(fault(path, 'the secret stands in the file; { env: NAME } or { file: PATH } keep it out'));
    }
  }
  const known = {
    notifiers: config.alerts.notifiers.map(({ name }) => name),
    alerts: config.alerts.rules.map(({ name }) => name),
  };
  for (const { path, message } of [...faultsOfAlerts(config), ...faultsOfAutoCancel(config, known)]) {
    faults.push(fault(path, message));
  }
  if (faults.length > 0) throw new ConfigError(faults);
  return { file, config, hash: hash.digest('hex').slice(0, 16), warnings };
}

/** What zod finds, as people read it. `locate` knows where a path, or a key of it, stands; `allowed` which keys may stand there. */
export function toFaults(
  issue: z.core.$ZodIssue,
  locate: (path: readonly PropertyKey[], key?: string) => Place & { readonly path: string },
  allowed: (path: readonly PropertyKey[]) => readonly string[],
): Fault[] {
  const { path } = issue;
  if (issue.code === 'unrecognized_keys') {
    const message = `unknown key; allowed here: ${allowed(path).join(', ')}`;
    return issue.keys.map(key => ({ ...locate(path, key), message }));
  }
  // The key of a record that its schema does not take: what is wrong with it stands one level below.
  if (issue.code === 'invalid_key') return issue.issues.flatMap(({ message }) => ({ ...locate(path), message }));
  const missing = issue.code === 'invalid_type' && issue.message.endsWith('received undefined');
  const message = missing
    ? `is required: ${issue.message.replace(/, received undefined$/, '').replace(/^Invalid input: /, '')}`
    : issue.message;
  return [{ ...locate(path), message: message.replace(/^Invalid input: /, '') }];
}
