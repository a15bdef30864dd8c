import { Command, InvalidArgumentError, Option } from 'commander';
import { formatError, type LoadedConfig, loadConfig } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import { systemClock } from '../kit/clock.ts';
import { Duration, parseDuration, parseInstant } from '../kit/duration.ts';

export function commandGroup(name: string, description: string, commands: readonly Command[]): Command {
  const names = commands.map(each => each.name()).join(', ');
  // Also print the help if an option precedes the command, as in `list --config FILE`.
  const group = new Command(name).description(description).exitOverride().allowUnknownOption();
  group.addHelpText('before', ({ error }) => (error ? `error: name a command: ${names}\n` : ''));
  // Subcommands must inherit from the group before it inherits from the program.
  for (const each of commands) group.addCommand(each.copyInheritedSettings(group));
  return group;
}

export function printWarnings(warnings: LoadedConfig['warnings']): void {
  for (const warning of warnings) process.stderr.write(`warning: ${formatError(warning)}\n`);
}

/** Loads an optional configuration file without its secrets, and prints the warnings. */
export function loadOptional(file: string | undefined): Config | undefined {
  if (file === undefined) return undefined;
  const { config, warnings } = loadConfig(file);
  printWarnings(warnings);
  return config;
}

/** Parses a duration such as `6h` to milliseconds. */
export function durationOption(text: string): number {
  const { data, error } = Duration.safeParse(text);
  if (data === undefined) throw new InvalidArgumentError(`It ${error?.issues[0]?.message}.`);
  return data;
}

/** Parses the base address of links. Removes trailing slashes. */
export function linkOption(text: string): string {
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol) || /[\s{}]/.test(text) || url.search || url.hash) {
    throw new InvalidArgumentError('It must be an http or https address without query or fragment.');
  }
  return text.replace(/\/+$/, '');
}

/** Returns the addresses of the agent and of its runbooks; nothing without `server.externalUrl`. */
export function servedLinks({ server: { externalUrl } }: Config) {
  const agent = externalUrl?.replace(/\/+$/, '');
  return agent === undefined ? {} : { agent, runbooks: `${agent}/runbooks` };
}

/** Parses the name of a scrape job. It must not contain `{{`, because alert texts are templates. */
export function jobOption(text: string): string {
  if (text.trim() === '' || text.includes('{{')) {
    throw new InvalidArgumentError('It must be the name of a scrape job, without {{.');
  }
  return text;
}

export const numberOption =
  (least: number, most: number) =>
  (text: string): number => {
    const value = Number(text);
    if (text.trim() === '' || !(value >= least && value <= most)) {
      throw new InvalidArgumentError(`It must be a number from ${least} to ${most}.`);
    }
    return value;
  };

export const integerOption =
  (least: number, most: number) =>
  (text: string): number => {
    const value = numberOption(least, most)(text);
    if (!Number.isInteger(value)) throw new InvalidArgumentError('It must be a whole number.');
    return value;
  };

/** Maximum length of an operator's name or reason (characters). */
const MAX_OPERATOR_TEXT = 200;

export function operatorTextOption(text: string): string {
  if (text.length <= MAX_OPERATOR_TEXT) return text;
  throw new InvalidArgumentError(`It must have at most ${MAX_OPERATOR_TEXT} characters.`);
}

export const repeated = (value: string, before: readonly string[] = []): readonly string[] => [...before, value];

/** Parses a time, or a duration before now, to ms since the Unix epoch. Times without an offset are UTC. */
export function timeOption(text: string): number {
  const ago = parseDuration(text);
  const at = ago === undefined ? parseInstant(text) : systemClock.now() - ago;
  if (at !== undefined) return at;
  throw new InvalidArgumentError(
    'It must be a time such as 2026-11-22T06:00:00Z, or a duration before now such as 6h.',
  );
}

export const runbooksOption = () =>
  new Option(
    '--runbooks <url>',
    'URL of a folder of runbooks: alerts link to NAME.md in it (default: the runbooks at server.externalUrl)',
  ).argParser(linkOption);
