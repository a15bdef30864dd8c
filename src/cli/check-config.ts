import { Command } from 'commander';
import { ConfigError, loadConfig } from '../config/load.ts';
import { plural } from '../kit/text.ts';
import { warnOfBlindAlerts } from './blind-alerts.ts';
import { printWarnings } from './option-values.ts';

const NOT_CHECKED = '; not checked: environment variables, secrets, certificates';

export function checkConfigCommand(): Command {
  return new Command('check-config')
    .description('validate a configuration file; report errors with line and column; exit 2 if there are errors')
    .argument('<file>', 'configuration file')
    .option('--no-secrets', 'for CI: do not require environment variables, secret files or certificates')
    .action(async (file: string, { secrets }: { secrets: boolean }) => {
      try {
        const { config, warnings } = loadConfig(file, secrets ? process.env : undefined);
        printWarnings(warnings);
        await warnOfBlindAlerts(config);
        const names = config.accounts.map(({ name }) => name);
        process.stdout.write(
          `${file} is valid: ${plural(names.length, 'account')} (${names.join(', ')})${secrets ? '' : NOT_CHECKED}\n`,
        );
      } catch (error) {
        if (error instanceof ConfigError) printWarnings(error.warnings);
        throw error;
      }
    });
}
