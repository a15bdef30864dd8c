import { chmodSync, statSync, writeFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import { mainFile } from '../support/bundle.ts';
import { startCli } from '../support/cli.ts';
import { newFolder } from '../support/folder.ts';

const hasIpv6 = networkInterfaces().lo?.some(({ family }) => family === 'IPv6') ?? false;

function configIn(folder: string, server: object): string {
  const file = join(folder, 'config.yaml');
  const accounts = [{ name: 'a', baseUrl: 'http://127.0.0.1:1', token: { env: 'DELIVERY_TOKEN' } }];
  writeFileSync(file, JSON.stringify({ server, store: { path: join(folder, 'data', 'store.db') }, accounts }));
  return file;
}

it.skipIf(!hasIpv6)('with listen [::], the agent serves IPv4 and IPv6, and healthcheck finds it', async () => {
  const folder = newFolder();
  const agent = startCli(['serve', '--config', configIn(folder, { listen: '[::]:0', public: true })], {
    DELIVERY_TOKEN: 'x',
  });
  const { port } = new URL(await agent.listensAt());
  for (const host of ['127.0.0.1', '[::1]']) {
    expect((await fetch(`http://${host}:${port}/-/healthy`)).status).toBe(200);
  }
  const check = startCli(['healthcheck', '--config', configIn(newFolder(), { listen: `[::]:${port}` })]);
  expect(await check.ended).toBe(0);
  agent.kill('SIGTERM');
  expect(await agent.ended).toBe(0);
});

it.skipIf(process.getuid?.() !== 0)(
  'the agent runs as a user id without a name, and no other user can read its store',
  async () => {
    const folder = newFolder();
    chmodSync(folder, 0o777);
    // Other users may not read the bundle's temporary folder.
    chmodSync(dirname(dirname(mainFile())), 0o755);
    const file = configIn(folder, { listen: '127.0.0.1:0' });
    const unnamed = ['setpriv', '--reuid', '1234567', '--regid', '0', '--clear-groups'];
    const agent = startCli(['serve', '--config', file], { DELIVERY_TOKEN: 'x' }, unnamed);
    await agent.listensAt();
    agent.kill('SIGTERM');
    expect(await agent.ended).toBe(0);
    const { uid, mode } = statSync(join(folder, 'data', 'store.db'));
    expect([uid, mode & 0o777]).toEqual([1234567, 0o600]);
  },
);
