import { Command } from 'commander';
import { beforeAll, describe, expect, it } from 'vitest';
import { allCommands, EXAMPLES } from '../../src/cli/cli.ts';

/** Splits a command line at spaces, except within single quotes. */
const words = (line: string) => (line.match(/'[^']*'|\S+/g) ?? []).map(word => word.replaceAll("'", ''));

const leavesOf = (command: Command, path: string): [string, Command][] =>
  command.commands.length === 0
    ? [[path, command]]
    : command.commands.flatMap(each => leavesOf(each, `${path} ${each.name()}`));

describe('help', () => {
  const program = new Command().exitOverride();
  let leaves: [string, Command][] = [];
  const ran: string[] = [];

  beforeAll(async () => {
    for (const command of await allCommands()) program.addCommand(command.copyInheritedSettings(program));
    leaves = program.commands.flatMap(command => leavesOf(command, command.name()));
    for (const [path, command] of leaves) command.exitOverride().action(() => void ran.push(path));
  });

  it('each command is in a group, and its help ends with an example', () => {
    expect(program.commands.filter(command => command.helpGroup() === '').map(command => command.name())).toEqual([]);
    for (const [path, command] of leaves) {
      const help: string[] = [];
      command.configureOutput({ writeOut: text => void help.push(text) }).outputHelp();
      expect(help.join('').trimEnd(), path).toMatch(new RegExp(`\n\nExamples:\n  delivery-watch ${path}[^\n]*$`));
    }
  });

  it.each(EXAMPLES)('the example is valid: delivery-watch %s', async example => {
    ran.length = 0;
    await program.parseAsync(words(example), { from: 'user' });
    expect(ran).toEqual([leaves.find(([path]) => `${example} `.startsWith(`${path} `))?.[0]]);
  });
});
