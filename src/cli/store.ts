import { Command } from 'commander';
import { loadStoreSettings, type StoreSettings } from '../config/load.ts';
import { systemClock } from '../kit/clock.ts';
import type { Change } from '../model/change.ts';
import { backupDatabase } from '../store/database.ts';
import { attachStore, openStore } from '../store/open.ts';
import { NO_ACCOUNT, type Store } from '../store/store.ts';
import { configOption } from './config-option.ts';
import { commandGroup } from './option-values.ts';

/** Key of a row that the target contains until the copy is complete. A target with this row may be overwritten. */
const UNFINISHED = 'copy/unfinished';
/** Approximate maximum size of a commit (characters). */
const MAX_COMMIT = 2 ** 20;

/** Acquires the lease of a shared store. Rejects if an agent is running. */
async function hold({ lease }: Store, where: string): Promise<void> {
  const clock = systemClock;
  if (!lease) return;
  // The lease of a killed agent expires within this time.
  const end = clock.monotonic() + 2 * lease.leaseTime;
  while ((await lease.renew()) !== 'leader') {
    if (clock.monotonic() > end) throw new Error(`an agent uses ${where}: stop it first`);
    await clock.sleep(lease.leaseTime / 10);
  }
}

async function renewed({ lease }: Store): Promise<void> {
  if (lease && lease.remaining() < lease.leaseTime / 2) await lease.renew();
}

/** Closes the store. A lease that cannot be released expires. */
async function close(store: Store): Promise<void> {
  try {
    await store.lease?.release();
  } catch {
  } finally {
    await store.close();
  }
}

function* inParts(changes: readonly Change[]): Generator<readonly Change[]> {
  let part: Change[] = [];
  let size = 0;
  for (const change of changes) {
    part.push(change);
    size += change.key.length + (change.value?.length ?? 0);
    if (size < MAX_COMMIT) continue;
    yield part;
    [part, size] = [[], 0];
  }
  if (part.length > 0) yield part;
}

async function isUsed(store: Store, accounts: readonly string[]): Promise<boolean> {
  if ((await store.scan(NO_ACCOUNT, UNFINISHED)).size > 0) return false;
  for (const account of accounts) if ((await store.sizes(account, '')).size > 0) return true;
  return false;
}

/**
 * Copies the rows of the agent and of all accounts into an empty store that no agent uses. An interrupted copy can be repeated.
 * Rejects with StoreError, or with an Error that names the next step.
 */
async function copyStore(from: StoreSettings, to: StoreSettings) {
  const { env } = process;
  // This process only acquires the leases: its address is never used.
  const deps = { env, candidate: { url: 'http://store-copy.invalid', clock: systemClock } };
  const all = [NO_ACCOUNT, ...from.accounts];
  let rows = 0;
  // Fail here if the source is missing, because `openStore` would create it.
  await (await attachStore(from.store, { env })).close();
  const source = await openStore(from.store, deps);
  try {
    await hold(source, 'the source store');
    const target = await openStore(to.store, deps);
    try {
      await hold(target, 'the target store');
      if (await isUsed(target, all)) throw new Error('the target store is not empty: choose another store or schema');
      await target.commit(NO_ACCOUNT, [{ key: UNFINISHED, value: new Date(systemClock.now()).toISOString() }]);
      for (const account of all) {
        const known = await source.scan(account, '');
        const old = [...(await target.sizes(account, '')).keys()];
        const gone = old.filter(key => !known.has(key) && key !== UNFINISHED).map(key => ({ key, value: null }));
        for (const part of inParts([...gone, ...Array.from(known, ([key, value]) => ({ key, value }))])) {
          for (const store of [source, target]) await renewed(store);
          await target.commit(account, part);
        }
        rows += known.size;
      }
      await target.commit(NO_ACCOUNT, [{ key: UNFINISHED, value: null }]);
    } finally {
      await close(target);
    }
  } finally {
    await close(source);
  }
  return { accounts: from.accounts.length, rows };
}

const NO_FILE = {
  postgres: 'the store is in PostgreSQL: back it up with pg_dump (docs/store.md)',
  memory: 'the store of kind memory ends with the agent: there is nothing to back up',
};

const backup = () =>
  new Command('backup')
    .description(
      'write a consistent copy of the SQLite store to a new file, even while an agent runs; to restore the copy, stop the agent, remove store.path and its -wal and -shm, and move the copy to store.path',
    )
    .argument('<file>', 'file to write; it must not exist')
    .addOption(configOption('configuration file with the store'))
    .action((file: string, { config }: { config: string }, command: Command) => {
      const { kind, path } = loadStoreSettings(config).store;
      if (kind !== 'sqlite') command.error(NO_FILE[kind]);
      process.stdout.write(`wrote ${file}, ${backupDatabase(path, file)} bytes\n`);
    });

const copy = () =>
  new Command('copy')
    .description(
      'copy counters, alert states, budgets, journal and history of all accounts into an empty store, for example from SQLite to PostgreSQL; stop the agent first',
    )
    .requiredOption('--from-config <file>', 'configuration file with the store and the accounts to copy; required')
    .requiredOption('--to-config <file>', 'configuration file with the store to copy to; required')
    .action(async ({ fromConfig, toConfig }: { fromConfig: string; toConfig: string }) => {
      const from = loadStoreSettings(fromConfig, true);
      const { accounts, rows } = await copyStore(from, loadStoreSettings(toConfig));
      process.stdout.write(`copied ${rows} rows of ${accounts} accounts\n`);
    });

export const storeCommand = (): Command =>
  commandGroup('store', 'back up or copy the store of the agent', [backup(), copy()]);
