import { type StoreOptions, storeOptions } from '../store/options.ts';
import { toFaults } from './issue-words.ts';
import { allowedKeys } from './json-schema.ts';
import { ConfigError, gather, namesAt, readText } from './load.ts';
import { parseAll, valueAt } from './parse-all.ts';

/** What is needed to speak with an agent through its store, and to read what it left there. */
export interface StoreSettings {
  readonly store: StoreOptions;
  /** Names of the accounts, as they stand there. */
  readonly accounts: readonly string[];
}

/**
 * Reads the section `store` and the names of accounts, and nothing else: a brake must hold whatever else is wrong with the
 * file, and it needs no token. Throws ConfigError where that section can't be read; with `needsAccounts`, also where names may
 * stand in what is no YAML.
 */
export function loadStoreSettings(file: string, needsAccounts = false): StoreSettings {
  const { raw, faults, mayBeThere, isSure, place } = gather(readText(file), file);
  // What breaks the file below the section says nothing of it.
  const isThere = valueAt(raw, ['store']) !== undefined && isSure(['store']);
  const isBroken = mayBeThere(['store', 'path']);
  if (isBroken && (needsAccounts || !isThere)) throw new ConfigError(faults);
  const parsed = parseAll(storeOptions.prefault({}), valueAt(raw, ['store']), {
    standIn: () => undefined,
    deciding: [],
    independent: [],
  });
  if (parsed.issues.length > 0 || !parsed.data) {
    const found = parsed.issues.map(issue => ({ ...issue, path: ['store', ...issue.path] }));
    throw new ConfigError(found.flatMap(issue => toFaults(issue, place, allowedKeys, path => valueAt(raw, path))));
  }
  return { store: parsed.data, accounts: namesAt(raw, ['accounts']) };
}
