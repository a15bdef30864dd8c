import { createHash } from 'node:crypto';
import { resolve } from 'node:path';
import { z } from 'zod';
import { type Schedule, schedulesOf } from '../collectors/index.ts';
import { systemClock } from '../kit/clock.ts';
import { createOccurrences } from '../kit/cron.ts';
import { formatDuration } from '../kit/duration.ts';
import type { Env } from '../kit/secret.ts';
import { checkAlerts } from './alerts.ts';
import {
  ConfigError,
  checkNames,
  type FileLocation,
  type LocatedError,
  type Path,
  type Reporter,
  sortedErrors,
  valueAt,
} from './errors.ts';
import { checkFiles, filesOf } from './files.ts';
import { Config, ConfigInput } from './schema.ts';
import { checkPlainHttp, checkSecrets, checkTwins, expansions } from './secrets.ts';
import { checkAutoCancel, checkSettings } from './settings.ts';
import { readBytes, readText, tryRead } from './text-file.ts';
import { MAX_FILE_BYTES, readWebConfig } from './web-config.ts';
import { parseContent, readYaml, type YamlFile } from './yaml-file.ts';

/** Maximum number of expected starts with an open outcome at the same time. */
const MAX_OPEN = 1000;
/** A fixed day, so that the result does not depend on the date. */
const FIRST_DAY = Date.UTC(2026, 0, 1);
const SAMPLED_STARTS = 30;

/** Returns the shortest of the sampled intervals (ms). */
function shortestInterval({ cron, tz }: Schedule): number {
  const after = createOccurrences(cron, tz);
  let shortest = Number.POSITIVE_INFINITY;
  let last = after(FIRST_DAY)?.at;
  for (let seen = 1; seen < SAMPLED_STARTS && last !== undefined; seen += 1) {
    const next = after(last)?.at;
    if (next !== undefined) shortest = Math.min(shortest, next - last);
    last = next;
  }
  return shortest;
}

function checkTimes(schedule: Schedule, path: Path, report: Reporter): void {
  const { grace, endsWithin } = schedule;
  const interval = shortestInterval(schedule);
  if ((grace + endsWithin) / interval > MAX_OPEN) {
    const message = `plus grace must be at most ${formatDuration(MAX_OPEN * interval)}, the time of ${MAX_OPEN} expected starts`;
    report.error([...path, 'endsWithin'], message);
  }
}

function checkRoute(schedule: Schedule, accounts: Config['accounts'], path: Path, report: Reporter): void {
  const { route } = schedule.match;
  if (route === undefined) return;
  const without = accounts.find(
    ({ name, collect }) => schedulesOf([schedule], name).length > 0 && !collect.routes.includes(route),
  );
  if (without) report.error(path, `is not one of collect.routes of the account ${without.name}`);
}

/** Reports schedules that cannot be evaluated. */
function checkSchedules({ schedules, accounts }: Config, report: Reporter): void {
  const names = accounts.map(({ name }) => name);
  for (const [index, schedule] of schedules.entries()) {
    const path = ['schedules', index];
    checkTimes(schedule, path, report);
    checkNames('account', schedule.accounts ?? [], names, [...path, 'accounts'], report);
    checkRoute(schedule, accounts, [...path, 'match', 'route'], report);
    const withoutEvents = accounts.find(
      ({ name, collect }) => !collect.events.enabled && schedulesOf([schedule], name).length > 0,
    );
    if (withoutEvents) {
      const message = `needs collect.events, which is not enabled for the account ${withoutEvents.name}`;
      report.error(schedule.accounts === null ? path : [...path, 'accounts'], message);
    }
  }
}

export { ConfigError, formatError, type LocatedError, withPath } from './errors.ts';

export interface LoadedConfig {
  readonly file: string;
  readonly config: Config;
  /** First 16 hexadecimal digits of the SHA-256 of the settings. Excludes secrets, because short ones could be guessed. */
  readonly hash: string;
  /** SHA-256 of all files, which is never shown. Undefined if the configuration has no file. */
  readonly filesHash?: string;
  /** Valid settings that are probably mistakes. */
  readonly warnings: readonly LocatedError[];
  /** Returns the place of a setting. Undefined if the configuration has no file. */
  readonly place?: (path: Path) => FileLocation;
}

/** Reads and checks a configuration file. Throws ConfigError with all errors. Without `env`, secrets and certificates are not read. */
export function loadConfig(file: string, env?: Env, now?: number): LoadedConfig {
  return parseConfig(readText(file), file, env, now);
}

/** Reads a file and its account files into one value. */
function gather(text: string, file: string) {
  const main = readYaml(text, file);
  const hash = createHash('sha256').update(text);
  const warnings: LocatedError[] = [];
  const errors = [...main.errors];
  const { content } = main;
  const isMapping = typeof content === 'object' && content !== null && !Array.isArray(content);
  const raw: Record<string, unknown> = isMapping ? { ...content } : {};
  /** For each account, its file and its index in that file. */
  const owners: { yaml: YamlFile; index: number }[] = [];
  if (Array.isArray(raw.accounts)) for (const index of raw.accounts.keys()) owners.push({ yaml: main, index });

  function addAccounts(path: string): void {
    const more = readText(path);
    hash.update(more);
    const yaml = readYaml(more, path);
    if (yaml.errors.length > 0) throw new ConfigError(yaml.errors);
    if (!Array.isArray(yaml.content)) {
      throw new ConfigError([{ ...yaml.locate([]), message: 'must be a list of accounts' }]);
    }
    for (const index of yaml.content.keys()) owners.push({ yaml, index });
    raw.accounts = [...(Array.isArray(raw.accounts) ? raw.accounts : []), ...yaml.content];
  }

  const patterns: readonly unknown[] = Array.isArray(raw.accountFiles) ? raw.accountFiles : [];
  const found = new Map<string, string>();
  for (const [number, pattern] of patterns.entries()) {
    if (typeof pattern !== 'string') continue;
    const files = filesOf(pattern, file);
    if (files.length === 0) warnings.push({ ...main.locate(['accountFiles', number]), message: 'matches no file' });
    for (const path of files) if (!found.has(resolve(path))) found.set(resolve(path), path);
  }
  for (const path of found.values()) {
    try {
      addAccounts(path);
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      errors.push(...error.errors);
    }
  }

  /** Returns the file that contains a setting, and the setting's path there. */
  function ownerOf(path: Path): { yaml: YamlFile; path: Path } {
    const [section, number, ...rest] = path;
    const owner = section === 'accounts' && typeof number === 'number' ? owners[number] : undefined;
    return owner && owner.yaml !== main ? { yaml: owner.yaml, path: [owner.index, ...rest] } : { yaml: main, path };
  }

  return {
    main,
    raw: (isMapping ? raw : (content ?? {})) as unknown,
    errors,
    warnings,
    filesHash: hash.digest('hex'),
    /** Returns a setting's place in the file that contains it. */
    place(path: Path, key?: string): FileLocation {
      const own = ownerOf(path);
      return own.yaml.locate(own.path, key);
    },
  };
}

/**
 * Parses a configuration. Its paths are relative to the folder of `file`. Throws ConfigError with all errors of the first
 * stage that has any: reading the files, the schema, checks across sections.
 */
export function parseConfig(text: string, file: string, env?: Env, now = systemClock.now()): LoadedConfig {
  const { raw, errors, warnings, filesHash, place } = gather(text, file);
  if (errors.length > 0) throw new ConfigError(errors, warnings);

  const expanded = expansions(raw).map(({ path, message }) => ({ ...place(path), message }));
  const isExpanded = (at: FileLocation) => expanded.some(({ file, path }) => file === at.file && path === at.path);
  const parsed = parseContent(Config, raw, place);
  errors.push(...expanded, ...parsed.errors.filter(error => !isExpanded(error)));
  const { data: config } = parsed;
  if (!config || errors.length > 0) throw new ConfigError(errors, warnings);

  const into = (list: LocatedError[]) => (path: Path, message: string) => list.push({ ...place(path), message });
  const isGiven = (path: Path) => valueAt(raw, path) !== undefined;
  const report: Reporter = { error: into(errors), warn: into(warnings), isGiven };
  checkSecrets(config, env, report);
  if (env) checkFiles(config, env, report);
  checkTwins(config, env, report);
  checkSettings(config, now, report);
  checkPlainHttp(config, report);
  checkAlerts(config, now, report);
  checkAutoCancel(config, report);
  checkSchedules(config, report);
  const { webConfigFile } = config.server;
  const missing = env && webConfigFile !== null && tryRead(() => readBytes(webConfigFile, MAX_FILE_BYTES));
  if (missing && 'wrong' in missing) report.error(['server', 'webConfigFile'], `${webConfigFile} ${missing.wrong}`);
  else if (env && webConfigFile !== null) {
    try {
      warnings.push(...readWebConfig(webConfigFile).warnings);
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      errors.push(...error.errors);
      warnings.push(...error.warnings);
    }
  }
  if (errors.length > 0) throw new ConfigError(errors, warnings);
  const hash = createHash('sha256').update(JSON.stringify(config)).digest('hex').slice(0, 16);
  return { file, config, hash, filesHash, warnings: sortedErrors(warnings), place };
}

export type StoreSettings = ReturnType<typeof loadStoreSettings>;

/** Schema with only the section `store`. Ignores other sections. */
const storeSection = z.object({ store: ConfigInput.shape.store });

/**
 * Reads only `store` and the names of accounts: a pause must work even if the rest of the file is invalid. Throws
 * ConfigError if `store` cannot be read or, with `needsAccounts`, if the names may be incomplete.
 */
export function loadStoreSettings(file: string, needsAccounts = false) {
  const { main, raw, errors, place } = gather(readText(file), file);
  const hasStore = !main.isBroken || (valueAt(raw, ['store']) !== undefined && main.isSure(['store']));
  const hasAccounts = !main.isBroken && errors.every(error => error.file === file);
  if (!hasStore || (needsAccounts && !hasAccounts)) throw new ConfigError(errors);
  const parsed = parseContent(storeSection, raw, place);
  if (!parsed.data) throw new ConfigError(parsed.errors);
  const accounts = valueAt(raw, ['accounts']);
  const names = (Array.isArray(accounts) ? accounts : []).map(account => valueAt(account, ['name']));
  return { store: parsed.data.store, accounts: [...new Set(names.filter(name => typeof name === 'string'))] };
}
