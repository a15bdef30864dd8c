import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { backfillCommand } from '../../src/cli/backfill.ts';
import { newFolder } from '../support/folder.ts';

const accounts = [{ name: 'production', baseUrl: 'http://127.0.0.1:1', token: 'test-token' }];

/** Returns the error output for invalid options. */
async function refused(...options: string[]): Promise<string> {
  const config = join(newFolder(), 'config.yaml');
  writeFileSync(config, JSON.stringify({ accounts }));
  let text = '';
  const command = backfillCommand()
    .exitOverride()
    .configureOutput({ writeErr: line => (text += line) });
  await expect(command.parseAsync(['--config', config, ...options], { from: 'user' })).rejects.toMatchObject({
    name: 'CommanderError',
  });
  return text.replace(config, 'config.yaml');
}

it.each([
  [['--to', '2h'], "error: required option '--from <time>' not specified\n"],
  [['--from', '1h', '--to', '2h'], 'error: --from must be before --to, and before now\n'],
  [['--from', '2999-01-01T00:00:00Z'], 'error: --from must be before --to, and before now\n'],
  [['--from', '1h', '--account', 'nobody'], 'error: config.yaml has no account nobody; it has production\n'],
  [['--from', '1h', '--out', '/nowhere/at/all'], 'error: --out: there is no folder /nowhere/at\n'],
])('backfill rejects the options %j with a message before it queries the service', async (options, text) => {
  expect(await refused(...options)).toBe(text);
});

it.each(['5', 'yesterday', '22.11.2026'])('backfill rejects %s as a time', async text => {
  expect(await refused('--from', text)).toContain(
    'must be a time such as 2026-11-22T06:00:00Z, or a duration before now such as 6h.',
  );
});

it('backfill explains the format of an invalid label', async () => {
  expect(await refused('--from', '1h', '--label', 'a b=c')).toContain(
    'must be NAME=VALUE; a name has letters, digits and _, and does not begin with a digit.',
  );
});
