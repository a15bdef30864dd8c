import { Command } from 'commander';
import { loadStoreSettings } from '../config/load.ts';
import { systemClock } from '../kit/clock.ts';
import { commandGroup } from './option-values.ts';
import { backupDatabase, copyStore } from './store-copy.ts';

const NO_FILE = {
  postgres: 'the store is in PostgreSQL: back it up with pg_dump (docs/operate.md)',
  memory: 'the store of kind memory ends with the agent: there is nothing to back up',
};

const backup = () =>
  new Command('backup')
    .description(
      'write a consistent copy of the SQLite store to a new file, while an agent runs or not; to restore, stop the agent, remove store.path with its -wal and -shm, and put the copy there',
    )
    .argument('<file>', 'file to write; it must not exist')
    .requiredOption('--config <file>', 'configuration file with the store')
    .action((file: string, { config }: { config: string }, command: Command) => {
      const { kind, path } = loadStoreSettings(config).store;
      if (kind !== 'sqlite') command.error(NO_FILE[kind]);
      process.stdout.write(`wrote ${file}, ${backupDatabase(path, file)} bytes\n`);
    });

const copy = () =>
  new Command('copy')
    .description(
      'copy what is stored of all accounts into an empty store, such as from SQLite to PostgreSQL, while no agent runs on either; counters, alert states, budgets, journal and history go on there',
    )
    .requiredOption('--from-config <file>', 'configuration file with the store, and the accounts, to copy')
    .requiredOption('--to-config <file>', 'configuration file with the store to copy to')
    .action(async ({ fromConfig, toConfig }: { fromConfig: string; toConfig: string }) => {
      const deps = { env: process.env, clock: systemClock };
      const from = loadStoreSettings(fromConfig, true);
      const { accounts, rows } = await copyStore(from, loadStoreSettings(toConfig), deps);
      process.stdout.write(`copied ${rows} rows of ${accounts} accounts\n`);
    });

export const storeCommand = (): Command => commandGroup('store', 'what the agent keeps', [backup(), copy()]);
