import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, it, vi } from 'vitest';
import { startAgent } from '../../src/agent/agent.ts';
import { parseConfig } from '../../src/config/load.ts';
import { startEmulator } from '../../src/emulator/server.ts';
import { systemClock } from '../../src/kit/clock.ts';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';
import { createViewScene } from '../support/view-scene.ts';

it('closing the agent waits for a locked store only once, regardless of the number of accounts', async () => {
  const emulator = await startEmulator({ workload: false });
  afterThisTest(() => emulator.close());
  const path = join(newFolder(), 'agent.db');
  const text = JSON.stringify({
    server: { listen: '127.0.0.1:0' },
    log: { level: 'silent' },
    store: { path },
    collect: { flowControl: { every: '20ms' } },
    accounts: ['a', 'b'].map(name => ({ name, baseUrl: emulator.url, token: emulator.token })),
  });
  const deps = { env: {}, clock: systemClock, random: () => 0 };
  const agent = await startAgent(parseConfig(text, 'agent.yaml', {}), deps);
  await eventually(() => expect(agent.status().map(({ up }) => up)).toEqual([true, true]));
  // Wait for another read of each account, so that there are changes to save.
  const readAt = () => agent.status().map(({ collectors }) => collectors[0]?.rounds[0]?.dataAt ?? 0);
  const last = Math.max(...readAt());
  await eventually(() => expect(Math.min(...readAt())).toBeGreaterThan(last));
  const other = new DatabaseSync(path);
  afterThisTest(async () => other.close());
  other.exec('BEGIN IMMEDIATE');
  const exec = vi.spyOn(DatabaseSync.prototype, 'exec');
  afterThisTest(async () => exec.mockRestore());
  await agent.close();
  expect(exec.mock.calls.filter(([sql]) => sql === 'BEGIN IMMEDIATE')).toHaveLength(1);
});

it('exposes a problem of the agent itself without the label account, on /metrics and /metrics/agent', async () => {
  const { core, clock } = await createViewScene({}, { heartbeat: { url: 'http://127.0.0.1:1' } });
  core.start();
  const exposed = async (scope: 'everything' | 'agent') =>
    (await core.served.exposition(scope, 'text', false)).body.toString().match(/^delivery_problem.*$/gm);
  const series = 'delivery_problem{kind="notifications_failing",severity="critical",subject="heartbeat"} 1';
  await eventually(async () => {
    await clock.advance(60_000);
    expect(await exposed('everything')).toContain(series);
  });
  expect(await exposed('agent')).toEqual([series]);
});
