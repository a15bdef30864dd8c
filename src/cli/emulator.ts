import type { Command } from 'commander';
import type { Dialect, Emulator, EmulatorOptions } from '../emulator/server.ts';

/** Collects the values of an option that may be repeated. */
export const repeated = (value: string, before: readonly string[] = []): readonly string[] => [...before, value];

/** As they stand on the command line. */
interface Given {
  readonly option?: readonly string[] | undefined;
  readonly fault?: readonly string[] | undefined;
}

/**
 * Starts the emulator, which is loaded only here and for its help: `serve` never carries it. An unknown scenario, option or
 * fault is bad usage of `command`.
 */
export async function startEmulatorFor(
  command: Command,
  options: EmulatorOptions & { scenario: string },
  { option = [], fault = [] }: Given = {},
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

/** What the emulator says of itself: scenarios, options, faults. */
export async function emulatorHelp(): Promise<string> {
  const { scenarios, dialectHelp, faultHelp } = await import('../emulator/server.ts');
  const indent = (lines: readonly string[]) => lines.map(line => `  ${line}`);
  return [
    '',
    'Scenarios:',
    ...Object.entries(scenarios).map(([name, { description }]) => `  ${name}\n      ${description}`),
    '',
    'Options (--option name=value), the default first:',
    ...indent(dialectHelp()),
    '',
    'Faults (--fault name=value,name=value, or POST /_emulator/faults with JSON):',
    ...indent(faultHelp()),
  ].join('\n');
}
