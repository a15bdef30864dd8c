import { Command, Option } from 'commander';
import { scenarios } from '../emulator/scenarios.ts';
import { startEmulator } from '../emulator/server.ts';
import { integerOption, numberOption } from './option-values.ts';
import { untilStopped } from './until-stopped.ts';

const timeNote = (speed: number) =>
  speed === 0
    ? 'The clock of this service is stopped.'
    : `Time runs ${speed} times as fast, but only for this service. Agents and Prometheus keep real time, so timestamps are in their future. To speed up an agent as well, use demo.`;

export const scenarioOption = (description: string) =>
  new Option('--scenario <name>', description).choices(Object.keys(scenarios)).default('steady');

interface Options {
  readonly port: number;
  readonly scenario: string;
  readonly seed: number;
  readonly speed: number;
}

export function emulateCommand(): Command {
  return new Command('emulate')
    .description("run the service's emulator alone, on loopback, until SIGTERM or SIGINT")
    .option('--port <n>', 'port; 0: any free port', integerOption(0, 65_535), 10_923)
    .addOption(scenarioOption('scenario to play; demo --help describes them'))
    .option('--seed <n>', 'the same seed gives the same workload', integerOption(0, 2 ** 31), 1)
    .option(
      '--speed <x>',
      'emulated seconds per real second, for the service, but not for agents and Prometheus; 0 stops the clock',
      numberOption(0, 10_000),
      1,
    )
    .action(async (options: Options) => {
      const stopped = untilStopped();
      const emulator = await startEmulator(options);
      const { url, token, credentials } = emulator;
      process.stdout.write(
        [
          'The emulated service listens.',
          `  url        ${url}`,
          `  token      ${token}`,
          `  read-only  ${credentials.readOnlyToken}`,
          `  account    ${credentials.login.username}:${credentials.login.password}`,
          ...(options.speed === 1 ? [] : [timeNote(options.speed)]),
          'Stop with Ctrl-C.\n',
        ].join('\n'),
      );
      await stopped;
      await emulator.close();
    });
}
