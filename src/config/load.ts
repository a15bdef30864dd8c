import { createHash } from 'node:crypto';
import { globSync, readFileSync } from 'node:fs';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { systemClock } from '../kit/clock.ts';
import type { Env } from '../kit/secret.ts';
import { sentAlerts } from '../rules/checks/alerts.ts';
import { type StoreOptions, storeOptions } from '../store/options.ts';
import { checkAlerts } from './alerts.ts';
import {
  byLocation,
  ConfigError,
  type FileLocation,
  formatError,
  formatPath,
  type LocatedError,
  type Path,
  type Reporter,
  readErrorText,
  toErrors,
} from './errors.ts';
import { checkExcludedFamilies } from './excluded-families.ts';
import { createAllowedKeys } from './json-schema.ts';
import { parseAll, valueAt } from './parse-all.ts';
import { checkSchedules } from './schedules.ts';
import { Config } from './schema.ts';
import { checkPlainHttp, checkSecrets, checkTwins, expansions } from './secrets.ts';
import { checkAutoCancel, checkSettings } from './settings.ts';
import { readWebConfig } from './web-config.ts';
import { readYaml, type YamlFile } from './yaml-file.ts';

export { ConfigError, formatError, type LocatedError, withPath } from './errors.ts';

export interface LoadedConfig {
  readonly file: string;
  readonly config: Config;
  /** First 16 hexadecimal digits of the SHA-256 of all files. */
  readonly hash: string;
  /** Valid settings that are probably mistakes. */
  readonly warnings: readonly LocatedError[];
  /** Returns the place of a setting. Undefined if the configuration has no file. */
  readonly place?: (path: Path) => FileLocation;
}

/** Reads a text file. Throws ConfigError if the file cannot be read. */
export function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new ConfigError([{ file, line: 1, column: 1, path: '', message: readErrorText(error) }]);
  }
}

/** Reads and checks a configuration file. Throws ConfigError with all errors. Without `env`, secrets and certificates are not read. */
export function loadConfig(file: string, env?: Env, now?: number): LoadedConfig {
  return parseConfig(readText(file), file, env, now);
}

/** Returns the names of a list's items, including invalid items. */
function namesAt(raw: unknown, path: Path): string[] {
  const list = valueAt(raw, path);
  const found = (Array.isArray(list) ? list : []).map(item => valueAt(item, ['name']));
  return [...new Set(found.filter(name => typeof name === 'string'))];
}

/** Returns the files that match a pattern, which is relative to the folder of `file`. */
export const filesOf = (pattern: string, file: string) =>
  globSync(pattern, { cwd: dirname(file) })
    .sort()
    .map(name => (isAbsolute(name) ? name : join(dirname(file), name)));

/** Reads a file and its account files into one value. */
function gather(text: string, file: string) {
  const main = readYaml(text, file);
  const hash = createHash('sha256').update(text);
  const warnings: LocatedError[] = [];
  const errors = [...main.errors];
  let isBroken = main.isBroken;
  const { content } = main;
  const isMapping = typeof content === 'object' && content !== null && !Array.isArray(content);
  const raw: Record<string, unknown> = isMapping ? { ...content } : {};
  /** For each account, its file and its index in that file. */
  const owners: { yaml: YamlFile; index: number }[] = [];
  if (Array.isArray(raw.accounts)) for (const index of raw.accounts.keys()) owners.push({ yaml: main, index });

  function addAccounts(path: string): void {
    let more: string;
    try {
      more = readText(path);
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      errors.push(...error.errors);
      isBroken = true;
      return;
    }
    hash.update(more);
    const yaml = readYaml(more, path);
    errors.push(...yaml.errors);
    isBroken ||= yaml.isBroken;
    if (Array.isArray(yaml.content)) {
      for (const index of yaml.content.keys()) owners.push({ yaml, index });
      raw.accounts = [...(Array.isArray(raw.accounts) ? raw.accounts : []), ...yaml.content];
    } else if (!yaml.isBroken) errors.push({ ...yaml.locate([]), message: 'must be a list of accounts' });
  }

  const patterns: readonly unknown[] = Array.isArray(raw.accountFiles) ? raw.accountFiles : [];
  const found = new Map<string, string>();
  for (const [number, pattern] of patterns.entries()) {
    if (typeof pattern !== 'string') continue;
    const files = filesOf(pattern, file);
    if (files.length === 0) warnings.push({ ...main.locate(['accountFiles', number]), message: 'matches no file' });
    for (const path of files) if (!found.has(resolve(path))) found.set(resolve(path), path);
  }
  for (const path of found.values()) addAccounts(path);

  /** Returns the file that contains a setting, and the setting's path in that file. */
  function own(path: Path): { yaml: YamlFile; own: Path } {
    const [section, number, ...rest] = path;
    const owner = section === 'accounts' && typeof number === 'number' ? owners[number] : undefined;
    return owner && owner.yaml !== main ? { yaml: owner.yaml, own: [owner.index, ...rest] } : { yaml: main, own: path };
  }

  return {
    raw: (isMapping ? raw : (content ?? {})) as unknown,
    errors,
    warnings,
    hash: hash.digest('hex').slice(0, 16),
    isComplete: !isBroken,
    /** Whether a missing value may be in an unreadable part of the files. */
    mayContain: (path: Path): boolean => (path.length < 2 ? isBroken : own(path).yaml.isBroken),
    place(path: Path, key?: string): FileLocation {
      const at = own(path);
      return at.yaml.locate(at.own, key);
    },
    isSure(path: Path, key?: string): boolean {
      const at = own(path);
      return at.yaml.isSure(at.own, key);
    },
  };
}

function sorted(errors: readonly LocatedError[]): LocatedError[] {
  const files = Map.groupBy(errors, ({ file }) => file);
  const unique = new Map(
    [...files.values()].flatMap(each => each.toSorted(byLocation)).map(each => [formatError(each), each]),
  );
  return [...unique.values()];
}

/** Parses a configuration. Its paths are relative to the folder of `file`. */
export function parseConfig(text: string, file: string, env?: Env, now = systemClock.now()): LoadedConfig {
  const gathered = gather(text, file);
  const { raw, errors, warnings, hash } = gathered;
  const expanded = expansions(raw);
  for (const { path, message } of expanded) errors.push({ ...gathered.place(path), message });
  const isExpanded = (path: Path) => expanded.some(each => formatPath(each.path) === formatPath(path));

  const parsed = parseAll(Config, raw);
  const { data: config } = parsed;
  const allowed = createAllowedKeys();
  for (const issue of parsed.issues) {
    const isMissing = issue.code !== 'unrecognized_keys' && valueAt(raw, issue.path) === undefined;
    if ((isMissing && gathered.mayContain(issue.path)) || isExpanded(issue.path)) continue;
    if (issue.code !== 'unrecognized_keys' && !gathered.isSure(issue.path)) continue;
    errors.push(...toErrors(issue, gathered.place, allowed, path => valueAt(raw, path)));
  }

  if (config) {
    const at = (path: Path): Path | undefined => {
      const there = parsed.original(path);
      return parsed.isOmitted(there) || isExpanded(there) || !gathered.isSure(there) ? undefined : there;
    };
    const into = (list: LocatedError[]) => (path: Path, message: string) => {
      const there = at(path);
      if (there) list.push({ ...gathered.place(there), message });
    };
    const report: Reporter = {
      error: into(errors),
      warn: into(warnings),
      isGiven: path => valueAt(raw, parsed.original(path)) !== undefined,
    };
    checkSecrets(config, env, report);
    const { webConfigFile } = config.server;
    if (env && webConfigFile !== null) {
      try {
        warnings.push(...readWebConfig(webConfigFile, now).warnings);
      } catch (error) {
        if (!(error instanceof ConfigError)) throw error;
        errors.push(...error.errors);
        warnings.push(...error.warnings);
      }
    }
    checkTwins(config, env, report);
    checkSettings(config, now, report);
    checkExcludedFamilies(config, report);
    checkPlainHttp(config, report);
    if (gathered.isComplete) {
      const declared = {
        accounts: namesAt(raw, ['accounts']),
        alerts: [...namesAt(raw, ['alerts', 'rules']), ...sentAlerts(config.alerts.builtin)],
        notifiers: namesAt(raw, ['alerts', 'notifiers']),
      };
      checkAlerts(config, now, declared, report);
      checkAutoCancel(config, declared, report);
      checkSchedules(config, declared, report);
    }
  }
  if (errors.length > 0 || !config) throw new ConfigError(sorted(errors), sorted(warnings));
  const place = (path: Path) => gathered.place(path);
  return { file, config, hash, warnings: sorted(warnings), place };
}

export interface StoreSettings {
  readonly store: StoreOptions;
  readonly accounts: readonly string[];
}

/**
 * Reads only `store` and the names of accounts: a pause must work even if the rest of the file is invalid. Throws
 * ConfigError if they cannot be read. `needsAccounts`: all names are required.
 */
export function loadStoreSettings(file: string, needsAccounts = false): StoreSettings {
  const { raw, errors, mayContain, isSure, place } = gather(readText(file), file);
  const isThere = valueAt(raw, ['store']) !== undefined && isSure(['store']);
  const isBroken = mayContain(['store', 'path']);
  if (isBroken && (needsAccounts || !isThere)) throw new ConfigError(errors);
  const parsed = parseAll(storeOptions.prefault({}), valueAt(raw, ['store']));
  if (parsed.issues.length > 0 || !parsed.data) {
    const found = parsed.issues.map(issue => ({ ...issue, path: ['store', ...issue.path] }));
    throw new ConfigError(
      found.flatMap(issue => toErrors(issue, place, createAllowedKeys(), path => valueAt(raw, path))),
    );
  }
  return { store: parsed.data, accounts: namesAt(raw, ['accounts']) };
}
