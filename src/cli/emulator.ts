import type { Command } from 'commander';
import type { Emulator, EmulatorOptions } from '../emulator/server.ts';

/** Starts the emulator, which is loaded only here: `serve` never carries it. An unknown scenario is bad usage of `command`. */
export async function startEmulatorFor(
  command: Command,
  options: EmulatorOptions & { scenario: string },
): Promise<Emulator> {
  const { scenarios, startEmulator } = await import('../emulator/server.ts');
  const names = Object.keys(scenarios);
  if (!names.includes(options.scenario)) {
    command.error(`error: there is no scenario '${options.scenario}'; there are ${names.join(', ')}`);
  }
  return startEmulator(options);
}
