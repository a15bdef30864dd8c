import { Command } from 'commander';
import { formatFault, loadConfig } from '../config/load.ts';

export function checkConfigCommand(): Command {
  return new Command('check-config')
    .description('say every fault of a configuration file, with its place; exit 2 if there is any')
    .argument('<file>', 'configuration file')
    .action((file: string) => {
      const { config, warnings } = loadConfig(file, process.env);
      for (const warning of warnings) process.stderr.write(`warning: ${formatFault(warning)}\n`);
      const names = config.accounts.map(({ name }) => name);
      process.stdout.write(
        `${file} is valid: ${names.length} account${names.length === 1 ? '' : 's'} (${names.join(', ')})\n`,
      );
    });
}
