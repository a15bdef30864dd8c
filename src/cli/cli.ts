import { Command, CommanderError } from 'commander';
import { SEARCHED } from '../config/default-file.ts';
import { ConfigError } from '../config/errors.ts';
import { printable } from '../kit/text.ts';
import { version } from '../kit/version.ts';
import { ExitStatus } from './exit-status.ts';

/** Commands in the order of the help, loaded lazily: an agent needs neither demo nor mixin. */
const COMMANDS: ReadonlyMap<string, () => Promise<Command>> = new Map([
  ['serve', async () => (await import('./serve.ts')).serveCommand()],
  ['snapshot', async () => (await import('./snapshot.ts')).snapshotCommand()],
  ['list', async () => (await import('./list.ts')).listCommand()],
  ['report', async () => (await import('./report.ts')).reportCommand()],
  ['message', async () => (await import('./message.ts')).messageCommand()],
  ['plan', async () => (await import('./plan.ts')).planCommand()],
  ['demo', async () => (await import('./demo.ts')).demoCommand()],
  ['emulate', async () => (await import('./emulate.ts')).emulateCommand()],
  ['doctor', async () => (await import('./doctor.ts')).doctorCommand()],
  ['check-config', async () => (await import('./check-config.ts')).checkConfigCommand()],
  ['healthcheck', async () => (await import('./healthcheck.ts')).healthcheckCommand()],
  ['auto-cancel', async () => (await import('./auto-cancel.ts')).autoCancelCommand()],
  ['rules', async () => (await import('./rules.ts')).rulesCommand()],
  ['notify', async () => (await import('./notify.ts')).notifyCommand()],
  ['dashboards', async () => (await import('./dashboards.ts')).dashboardsCommand()],
  ['store', async () => (await import('./store.ts')).storeCommand()],
  ['rotate-token', async () => (await import('./rotate-token.ts')).rotateTokenCommand()],
]);

export const allCommands = (): Promise<Command[]> => Promise.all([...COMMANDS.values()].map(load => load()));

async function commandsFor([first = '']: readonly string[]): Promise<Command[]> {
  if (first === '--version' || first === '-V') return [];
  const load = COMMANDS.get(first);
  return load ? [await load()] : allCommands();
}

const INVALID_VALUE =
  /^error: option '(?:-\w, )?(--[\w-]+).*?' argument '.*' is invalid\. (must|Allowed choices are) (.*)\.\n$/s;

const NO_CONFIG = "error: required option '--config <file>' not specified\n";

/** Rewrites commander's error as `error: --limit must be a whole number`. */
const errorText = (text: string) =>
  text
    .replace(NO_CONFIG, `error: no configuration found: use --config FILE, ${SEARCHED}\n`)
    .replace(
      INVALID_VALUE,
      (_, flag, verb, what) => `error: ${flag} ${verb === 'must' ? verb : 'must be one of'} ${what}\n`,
    );

/** Runs a command line and returns the exit code: 0 success, 1 failure, 2 invalid usage or configuration. `report` also returns 3. */
export async function runCli(argv: readonly string[]): Promise<number> {
  // A command's result is on standard output: without standard error, only its notes are missing.
  process.stderr.on('error', () => {});
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    // Keep running if the reader closes the output.
    if (error.code === 'EPIPE' || error.code === 'EIO') return;
    process.stderr.write(`standard output: ${error.message}\n`);
    process.exit(1);
  });
  const program = new Command('delivery-watch')
    .description('Prometheus exporter and alerting agent for a hosted message-delivery service')
    .version(version)
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(errorText(text)) });
  for (const command of await commandsFor(argv)) {
    program.addCommand(command.copyInheritedSettings(program));
    for (const each of command.commands) each.copyInheritedSettings(program);
  }
  try {
    await program.parseAsync(argv, { from: 'user' });
    return 0;
  } catch (error) {
    if (error instanceof ExitStatus) return error.code;
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    const message = error instanceof Error ? error.message : String(error);
    process.stderr.write(`${message.split('\n').map(printable).join('\n')}\n`);
    return error instanceof ConfigError ? 2 : 1;
  }
}
