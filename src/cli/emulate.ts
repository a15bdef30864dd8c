import { Command } from 'commander';
import type { EmulatedAccount } from '../emulator/server.ts';
import { emulatorHelp, repeated, startEmulatorFor } from './emulator.ts';
import { integerOption, numberOption } from './number-option.ts';
import { untilStopped } from './until-stopped.ts';

interface Options {
  readonly port: number;
  readonly scenario: string;
  readonly seed: number;
  readonly speed: number;
  readonly accounts: number;
  readonly option?: readonly string[];
  readonly fault?: readonly string[];
  readonly help?: true;
}

export function emulateCommand(): Command {
  return (
    new Command('emulate')
      .description("run the service's emulator alone, on loopback, until SIGTERM or SIGINT")
      .option('--port <n>', 'port; 0 takes any free one', integerOption(0, 65_535), 10_923)
      .option('--scenario <name>', 'what happens in it', 'steady')
      .option('--seed <n>', 'the same seed gives the same workload', integerOption(0, 2 ** 31), 1)
      .option('--speed <x>', 'emulated seconds in a second; 0 stands still', numberOption(0, 10_000), 1)
      .option('--accounts <n>', 'accounts, each with a token and a workload of its own', integerOption(1, 10_000), 1)
      .option('--option <name=value>', 'how the service speaks; may be repeated', repeated)
      .option(
        '--fault <name=value,...>',
        'what goes wrong, such as kind=status,share=0.1; may be repeated',
        repeated,
        [],
      )
      // Not commander's own: it prints before anything can be loaded, and no list of these names is kept here.
      .helpOption(false)
      .option('-h, --help', 'display this with all scenarios, options and faults')
      .action(async ({ help, option, fault, ...options }: Options, command: Command) => {
        if (help) {
          command.addHelpText('after', await emulatorHelp());
          command.outputHelp();
          return;
        }
        const stopped = untilStopped();
        const emulator = await startEmulatorFor(command, options, { option, fault });
        const { url, accounts } = emulator;
        const secrets = ({ token, readOnlyToken, credentials }: EmulatedAccount) => [
          `  token      ${token}`,
          `  read-only  ${readOnlyToken}`,
          `  account    ${credentials.login.username}:${credentials.login.password}`,
        ];
        process.stdout.write(
          [
            'The emulated service listens.',
            `  url        ${url}`,
            ...secrets(accounts[0]),
            ...accounts.slice(1).flatMap((account, index) => [`Account ${index + 2}:`, ...secrets(account)]),
            'Stop with Ctrl-C.\n',
          ].join('\n'),
        );
        await stopped;
        await emulator.close();
      })
  );
}
