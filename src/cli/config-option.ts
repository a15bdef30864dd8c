import { Option } from 'commander';
import { defaultFile, SEARCHED } from '../config/default-file.ts';

/** Returns the option for the configuration file. Its default is the file that `defaultFile` finds. */
export function configOption(description = 'configuration file'): Option {
  const found = defaultFile(process.env);
  const option = new Option(
    '--config <file>',
    found === undefined ? `${description} (default: ${SEARCHED})` : description,
  );
  return found === undefined ? option.makeOptionMandatory() : option.default(found, SEARCHED);
}
