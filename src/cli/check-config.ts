import { Command } from 'commander';
import { ConfigError, formatError, type LoadedConfig, loadConfig } from '../config/load.ts';
import { warnOfBlindAlerts } from './blind-alerts.ts';
import { environmentErrors } from './otlp-environment.ts';

const NOT_CHECKED = '; not checked: environment variables, secrets, certificates';

function warn(warnings: LoadedConfig['warnings']): void {
  for (const warning of warnings) process.stderr.write(`warning: ${formatError(warning)}\n`);
}

export function checkConfigCommand(): Command {
  const command = new Command('check-config');
  return command
    .description('validate a configuration file; report every error with line and column; exit 2 if there is any')
    .argument('<file>', 'configuration file')
    .option('--no-secrets', 'do not require environment variables, secret files and certificates, for CI')
    .action(async (file: string, { secrets }: { secrets: boolean }) => {
      try {
        const { config, warnings } = loadConfig(file, secrets ? process.env : undefined);
        warn(warnings);
        await warnOfBlindAlerts(config);
        const errors = secrets ? environmentErrors(config, process.env) : [];
        if (errors.length > 0) command.error(errors.join('\n'));
        const names = config.accounts.map(({ name }) => name);
        process.stdout.write(
          `${file} is valid: ${names.length} account${names.length === 1 ? '' : 's'} (${names.join(', ')})${secrets ? '' : NOT_CHECKED}\n`,
        );
      } catch (error) {
        if (error instanceof ConfigError) warn(error.warnings);
        throw error;
      }
    });
}
