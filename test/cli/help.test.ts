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
      expect(help.join('').trimEnd(), `EXAMPLES in src/cli/cli.ts: ${path}`).toMatch(
        new RegExp(`\n\nExamples:\n  delivery-watch ${path}[^\n]*$`),
      );
    }
  });

  it('the help of list runs describes its own filters, and that of other lists theirs', () => {
    const helpOf = (path: string) => leaves.find(([each]) => each === path)?.[1].helpInformation() ?? '';
    expect(helpOf('list runs')).toContain('URL of the workflow');
    expect(helpOf('list runs')).not.toMatch(/URL of the destination|state of the message/);
    expect(helpOf('list dlq') + helpOf('list events')).not.toMatch(/workflow\n|for runs/);
  });

  it.each(EXAMPLES)('the example is valid: delivery-watch %s', async example => {
    ran.length = 0;
    await program.parseAsync(words(example), { from: 'user' });
    expect(ran).toEqual([leaves.find(([path]) => `${example} `.startsWith(`${path} `))?.[0]]);
  });
});
