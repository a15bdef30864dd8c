import { type Command, Option } from 'commander';
import { defaultFile, SEARCHED } from '../config/default-file.ts';

/** Returns the option for the configuration file. Its default is the file that `defaultFile` finds. */
export function configOption(description = 'configuration file'): Option {
  const found = defaultFile(process.env);
  const help = found === undefined ? `${description} (default: ${SEARCHED})` : description;
  return new Option('--config <file>', help).default(found, SEARCHED);
}

/** Rejects a command with `configOption` but without a file. A mandatory option would hide unknown options and arguments. */
export function requireConfig(command: Command): void {
  const isRequired = command.options.some(({ defaultValueDescription }) => defaultValueDescription === SEARCHED);
  if (!isRequired || command.getOptionValue('config') !== undefined) return;
  command.error(`error: no configuration found: use --config FILE, ${SEARCHED}`);
}
