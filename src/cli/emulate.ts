import { Command } from 'commander';
import type { Dialect, EmulatedAccount, Emulator, EmulatorOptions } from '../emulator/server.ts';
import { integerOption, numberOption, repeated } from './option-values.ts';
import { untilStopped } from './until-stopped.ts';

export const CLOCK_SKEW_HELP = "seconds by which the service's clock is ahead of the agent's; negative: behind";
/** Parses a clock skew of at most 30 days (s). */
export const clockSkewOption = numberOption(-2_592_000, 2_592_000);

/** Starts the emulator. Reports an unknown scenario, option or fault as a usage error of `command`. */
export async function startEmulatorFor(
  command: Command,
  options: EmulatorOptions & { scenario: string },
  { option = [], fault = [] }: Pick<Options, 'option' | 'fault'> = {},
): Promise<Emulator> {
  const { scenarios, startEmulator, readDialectOption, readFault } = await import('../emulator/server.ts');
  const names = Object.keys(scenarios);
  if (!names.includes(options.scenario)) {
    command.error(`error: there is no scenario '${options.scenario}'; there are ${names.join(', ')}`);
  }
  const asUsage = <T>(read: (text: string) => T, texts: readonly string[]): T[] => {
    try {
      return texts.map(read);
    } catch (error) {
      return command.error(`error: ${(error as Error).message}`);
    }
  };
  const dialect: Partial<Dialect> = Object.assign({}, ...asUsage(readDialectOption, option));
  return startEmulator({ ...options, dialect, faults: asUsage(readFault, fault) });
}

async function emulatorHelp(): Promise<string> {
  const { scenarios, dialectHelp, faultHelp } = await import('../emulator/server.ts');
  const indent = (lines: readonly string[]) => lines.map(line => `  ${line}`);
  return [
    '',
    'Scenarios:',
    ...Object.entries(scenarios).flatMap(([name, { description, fires }]) => [
      `  ${name}\n      ${description}`,
      ...(fires.length === 0 ? [] : [`      alerts: ${fires.join(', ')}`]),
    ]),
    '',
    'Options (--option name=value), the default first:',
    ...indent(dialectHelp()),
    '',
    'Faults (--fault name=value,name=value, or POST /_emulator/faults with JSON):',
    ...indent(faultHelp()),
  ].join('\n');
}

function timeNote(speed: number, skew: number): string[] {
  if (skew !== 0)
    return [
      `The clock of this service is ${Math.abs(skew)} s ${skew > 0 ? 'ahead' : 'behind'}.`,
      ...timeNote(speed, 0),
    ];
  if (speed === 1) return [];
  if (speed === 0) return ['The clock of this service is stopped.'];
  return [
    `Time runs ${speed} times as fast for this service alone. Agents and Prometheus keep real time: timestamps lie in their future. To speed up an agent as well, use demo.`,
  ];
}

interface Options {
  readonly port: number;
  readonly scenario: string;
  readonly seed: number;
  readonly speed: number;
  readonly clockSkew: number;
  readonly accounts: number;
  readonly option?: readonly string[] | undefined;
  readonly fault?: readonly string[] | undefined;
  readonly help?: true;
}

export function emulateCommand(): Command {
  return (
    new Command('emulate')
      .description("run the service's emulator alone, on loopback, until SIGTERM or SIGINT")
      .option('--port <n>', 'port; 0: any free port', integerOption(0, 65_535), 10_923)
      .option('--scenario <name>', 'scenario to play', 'steady')
      .option('--seed <n>', 'the same seed gives the same workload', integerOption(0, 2 ** 31), 1)
      .option(
        '--speed <x>',
        'emulated seconds per real second, for the service alone: agents and Prometheus keep real time; 0 stops the clock',
        numberOption(0, 10_000),
        1,
      )
      .option('--clock-skew <s>', CLOCK_SKEW_HELP, clockSkewOption, 0)
      .option('--accounts <n>', 'number of accounts, each with its own token and workload', integerOption(1, 10_000), 1)
      .option('--option <name=value>', 'API variant; may be repeated', repeated)
      .option('--fault <name=value,...>', 'fault to inject, such as kind=status,share=0.1; may be repeated', repeated)
      // Commander's own help would print before scenarios, options and faults are loaded.
      .helpOption(false)
      .option('-h, --help', 'show this help with all scenarios, options and faults')
      .action(async ({ help, option, fault, clockSkew, ...rest }: Options, command: Command) => {
        const options = { ...rest, ahead: clockSkew * 1000 };
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
            ...timeNote(options.speed, clockSkew),
            'Stop with Ctrl-C.\n',
          ].join('\n'),
        );
        await stopped;
        await emulator.close();
      })
  );
}
