import { expect, it } from 'vitest';
import { autoCancelCommand } from '../../src/cli/auto-cancel.ts';

it.each([
  ['pause', '--reason', '--by'],
  ['resume', '--reason', '--by'],
  ['reset-breaker errors', '--reason', '--by'],
  ['approve action', '--by'],
])('%s rejects texts of more than 200 characters before it reads the configuration', async (command, ...options) => {
  const run = (lengthOf: (option: string) => number) => {
    const texts = options.flatMap(option => [option, 'x'.repeat(lengthOf(option))]);
    const args = [...command.split(' '), '--config', '/nowhere/config.yaml', ...texts];
    return autoCancelCommand().parseAsync(args, { from: 'user' });
  };
  for (const long of options) {
    await expect(run(option => (option === long ? 201 : 1))).rejects.toThrow('must have at most 200 characters');
  }
  await expect(run(() => 200)).rejects.toThrow('/nowhere/config.yaml');
});
