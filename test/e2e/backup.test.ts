import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, delimiter, join, relative, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { openSqliteStore } from '../../src/store/sqlite.ts';
import { type Agent, createAgent, unlimited } from '../support/agent.ts';
import { mainFile } from '../support/bundle.ts';
import { runCli, startCli } from '../support/cli.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';

it('counters continue after a backup is restored and after files are copied from a crashed agent', async () => {
  const emulator = await emulateEmpty();
  const collect = { flowControl: { enabled: false }, dlq: { enabled: false }, events: { every: '200ms' } };
  const settings = { accounts: [unlimited('a', emulator.url)], collect };
  const env = { DELIVERY_TOKEN: emulator.token };
  const happen = (count: number) => {
    for (let n = 0; n < count; n += 1) emulator.state.addEvent({ time: emulator.clock.now() });
  };
  const total = async (agent: Agent) => (await agent.scrape()).sum('delivery_events_total') ?? 0;
  const reaches = (agent: Agent, count: number) => eventually(async () => expect(await total(agent)).toBe(count));
  const agent = createAgent(settings, env);
  await agent.start();
  await eventually(async () => expect(await agent.value('delivery_up')).toBe(1));
  happen(20);
  await reaches(agent, 20);
  const backup = join(agent.folder, 'backup.db');
  const { code, stdout } = await runCli(['store', 'backup', backup, '--config', agent.configFile], env);
  expect([code, stdout]).toEqual([0, `wrote ${backup}, ${statSync(backup).size} bytes\n`]);
  expect(statSync(backup).mode & 0o777).toBe(0o600);
  happen(10);
  await reaches(agent, 30);
  expect(await agent.end('SIGTERM')).toBe(0);
  // A clean shutdown leaves one complete file.
  expect(existsSync(`${agent.store}-wal`)).toBe(false);

  const old = statSync(agent.store).ino;
  const [, commands = ''] = /^### Restore$.*?```sh\n(.*?)```/ms.exec(readFileSync('docs/store.md', 'utf8')) ?? [];
  const restore = () =>
    execFileSync('sh', ['-c', commands.replaceAll('delivery-watch.db', 'store.db')], { cwd: agent.folder });
  const replaced = () => globSync(join(agent.folder, 'replaced-*/*'));
  restore();
  const names = replaced().map(file => basename(file));
  expect(names.toSorted()).toEqual(['store.db', 'store.db-lock']);
  await agent.start();
  expect(await agent.end('SIGTERM')).toBe(0);
  // A second restore keeps the store that the first one replaced.
  restore();
  expect(replaced()).toHaveLength(4);
  expect(replaced().map(file => statSync(file).ino)).toContain(old);
  await agent.start();
  expect(await total(agent)).toBeGreaterThanOrEqual(20);
  // Events since the backup are counted again from the log.
  await reaches(agent, 30);

  happen(5);
  await reaches(agent, 35);
  expect(await agent.end('SIGKILL')).toBe('SIGKILL');
  expect(statSync(`${agent.store}-wal`).size).toBeGreaterThan(0);
  const moved = createAgent(settings, env);
  for (const end of ['', '-wal']) copyFileSync(`${agent.store}${end}`, `${moved.store}${end}`);
  await moved.start();
  expect(await total(moved)).toBe(35);
  happen(1);
  await reaches(moved, 36);
});

it('the commands for Kubernetes in docs/store.md back up, restore and copy the store of a pod', async () => {
  const folder = newFolder();
  for (const name of ['data', 'bin']) mkdirSync(join(folder, name));
  symlinkSync(resolve(mainFile()), join(folder, 'main.js'));
  // Runs the command of `kubectl exec` in the folder, which is `/app` in the pod.
  const kubectl = '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n';
  writeFileSync(join(folder, 'bin/kubectl'), kubectl, { mode: 0o755 });
  const path = (file: string) => join(folder, 'data', file);
  writeFileSync(join(folder, 'config.yaml'), JSON.stringify({ store: { path: path('new.db') } }));
  writeFileSync(join(folder, 'sqlite.yaml'), 'accounts: [{ name: a }]');
  const env = {
    ...process.env,
    PATH: [join(folder, 'bin'), process.env.PATH].join(delimiter),
    DELIVERY_WATCH_CONFIG: 'sqlite.yaml',
  };
  const page = readFileSync('docs/store.md', 'utf8');
  const [, backup = '', restore = '', copy = ''] =
    /^### On Kubernetes$.*?```console\n(.*?)```.*?```sh\n(.*?)```.*?^On Kubernetes.*?```sh\n(.*?)```/ms.exec(page) ??
    [];
  const run = (script: string) => {
    const commands = script.replace(/^\$ /gm, '').replace('/etc/delivery-watch/', '');
    return execFileSync('sh', ['-e', '-c', commands], { cwd: folder, env, encoding: 'utf8' });
  };
  const set = async (value: string) => {
    const store = await openSqliteStore({ path: path('delivery-watch.db') });
    await store.commit('a', [{ key: 'one', value }]);
    await store.close();
  };
  const get = async (file: string) => {
    const store = await openSqliteStore({ path: path(file) });
    const rows = await store.scan('a', '');
    await store.close();
    return rows.get('one');
  };
  await set('old');
  expect(run(backup)).toMatch(/^wrote data\/backup\.db, \d+ bytes\n$/);
  expect(existsSync(path('backup.db'))).toBe(false);
  await set('new');
  run(restore);
  expect(await get('delivery-watch.db')).toBe('old');
  await set('newer');
  run(restore);
  expect(await get('delivery-watch.db')).toBe('old');
  const replaced = globSync('data/replaced-*/delivery-watch.db', { cwd: folder });
  const values = await Promise.all(replaced.map(file => get(relative('data', file))));
  expect(values.toSorted()).toEqual(['new', 'newer']);
  expect(run(copy)).toMatch(/^copied \d+ rows of 1 accounts\n$/);
  expect(await get('new.db')).toBe('old');
});

describe('store backup', () => {
  const configured = (store: object) => {
    const folder = newFolder();
    const config = join(folder, 'config.yaml');
    writeFileSync(config, JSON.stringify({ store, accounts: [] }));
    const backup = (file: string) => runCli(['store', 'backup', join(folder, file), '--config', config]);
    return { folder, backup };
  };

  it('store backup copies the store while an agent commits to it, and leaves no other files', async () => {
    const path = join(newFolder(), 'store.db');
    const { folder, backup } = configured({ path });
    const agent = await openSqliteStore({ path });
    // Both rows of a commit must match in every copy.
    const commit = (n: number) =>
      agent.commit(
        'a',
        ['one', 'two'].map(key => ({ key, value: String(n) })),
      );
    await agent.commit('a', [{ key: 'large', value: 'x'.repeat(16 * 2 ** 20) }]);
    let isOver = false;
    let commits = 0;
    const writing = (async () => {
      for (; !isOver; commits += 1) await commit(commits);
    })();
    expect(await backup('backup.db')).toMatchObject({ code: 0, stderr: '' });
    const during = commits;
    isOver = true;
    await writing;
    await agent.close();
    expect(during).toBeGreaterThan(10);
    expect(readdirSync(folder).toSorted()).toEqual(['backup.db', 'config.yaml']);
    const copy = await openSqliteStore({ path: join(folder, 'backup.db') });
    const rows = await copy.scan('a', '');
    await copy.close();
    expect(rows.get('large')).toHaveLength(16 * 2 ** 20);
    expect(rows.get('one')).toBe(rows.get('two'));
    expect(Number(rows.get('one'))).toBeLessThanOrEqual(during);
  });

  it('store backup changes no existing file and reports files that it cannot read or write', async () => {
    const path = join(newFolder(), 'store.db');
    const { folder, backup } = configured({ path });
    expect(await backup('backup.db')).toMatchObject({ code: 1, stderr: expect.stringContaining('does not exist') });
    await (await openSqliteStore({ path })).close();
    writeFileSync(join(folder, 'backup.db'), 'old');
    const stderr = `${join(folder, 'backup.db')} already exists: name a new file\n`;
    expect(await backup('backup.db')).toEqual({ code: 1, stdout: '', stderr });
    expect(await backup('missing/backup.db')).toMatchObject({ code: 1, stderr: expect.stringContaining('ENOENT') });
    expect(readdirSync(folder).toSorted()).toEqual(['backup.db', 'config.yaml']);
  });

  it('store backup writes to a file with a name that looks like a URI', async () => {
    const path = join(newFolder(), 'store.db');
    const { folder } = configured({ path });
    await (await openSqliteStore({ path })).close();
    const args = ['store', 'backup', 'file:backup.db', '--config', 'config.yaml'];
    expect(await startCli(args, {}, ['env', `--chdir=${folder}`]).ended).toBe(0);
    expect(readdirSync(folder).toSorted()).toEqual(['config.yaml', 'file:backup.db']);
    await (await openSqliteStore({ path: join(folder, 'file:backup.db') })).close();
    expect(statSync(join(folder, 'file:backup.db')).size).toBe(statSync(path).size);
  });

  it('store backup exits with 2 on a usage error', async () => {
    expect(await runCli(['store', 'backup'])).toMatchObject({ code: 2, stdout: '' });
    expect(await runCli(['store', 'copy'])).toMatchObject({ code: 2, stdout: '' });
  });

  it.each([
    [
      { kind: 'postgres', url: 'postgres://localhost/d' },
      'the store is in PostgreSQL: back it up with pg_dump (docs/store.md)',
    ],
    [{ kind: 'memory' }, 'the store of kind memory ends with the agent: there is nothing to back up'],
  ])('store backup rejects the store %j', async (store, message) => {
    const { backup } = configured(store);
    expect(await backup('backup.db')).toEqual({ code: 2, stdout: '', stderr: `${message}\n` });
  });
});
