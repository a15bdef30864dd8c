import { Command } from 'commander';
import { startEmulatorFor } from './emulator.ts';
import { numberOption } from './number-option.ts';
import { untilStopped } from './until-stopped.ts';

export function emulateCommand(): Command {
  return new Command('emulate')
    .description("run the service's emulator alone, on loopback, until SIGTERM or SIGINT")
    .option('--port <n>', 'port; 0 takes any free one', numberOption(0, 65_535), 10_923)
    .option('--scenario <name>', 'what happens in it', 'steady')
    .option('--seed <n>', 'the same seed gives the same workload', numberOption(0, 2 ** 31), 1)
    .option('--speed <x>', 'emulated seconds in a second; 0 stands still', numberOption(0, 10_000), 1)
    .action(async (options: { port: number; scenario: string; seed: number; speed: number }, command: Command) => {
      const stopped = untilStopped();
      const emulator = await startEmulatorFor(command, options);
      process.stdout.write(
        `The emulated service listens.\n  url    ${emulator.url}\n  token  ${emulator.token}\nStop with Ctrl-C.\n`,
      );
      await stopped;
      await emulator.close();
    });
}
