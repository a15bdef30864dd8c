import { Command } from 'commander';
import { copyStore } from '../app/store-copy.ts';
import { loadStoreSettings } from '../config/load.ts';
import { systemClock } from '../kit/clock.ts';

export function storeCommand(): Command {
  return new Command('store').description('what the agent keeps').addCommand(
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
      }),
  );
}
