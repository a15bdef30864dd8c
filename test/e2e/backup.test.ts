import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { type Agent, createAgent, unlimited } from '../support/agent.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';

/** The program that docs/operate.md gives for a backup. */
const [, BACKUP = ''] = /^\$ node -e '([^']+)' \S+ \S+$/m.exec(readFileSync('docs/operate.md', 'utf8')) ?? [];

it('a backup of a running agent is restored, and its counters go on; so they do on another machine, after a crash', async () => {
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
  execFileSync(process.execPath, ['-e', BACKUP, agent.store, backup]);
  happen(10);
  await reaches(agent, 30);
  expect(await agent.end('SIGTERM')).toBe(0);
  // A clean stop leaves one file that is complete.
  expect(existsSync(`${agent.store}-wal`)).toBe(false);

  const away = join(agent.folder, 'away');
  mkdirSync(away);
  for (const name of ['store.db', 'store.db-wal', 'store.db-shm']) {
    if (existsSync(join(agent.folder, name))) renameSync(join(agent.folder, name), join(away, name));
  }
  copyFileSync(backup, agent.store);
  await agent.start();
  expect(await total(agent)).toBeGreaterThanOrEqual(20);
  // What the log still lists since then is counted again.
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
