import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { startAgent } from '../../src/agent/agent.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { Store } from '../../src/store/store.ts';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { createSharedStore } from '../support/fake-group.ts';
import { newFolder } from '../support/folder.ts';
import { createManualClock } from '../support/manual-clock.ts';

it('stopping the agent aborts a reload that is waiting for an unresponsive database', async () => {
  const clock = createManualClock();
  const shared = createSharedStore(clock).join('one');
  let hanging: number | undefined;
  const store: Store = {
    ...shared,
    async commit(...which) {
      if (hanging === undefined) return shared.commit(...which);
      hanging += 1;
      return new Promise(() => undefined);
    },
  };
  const file = join(newFolder(), 'config.yaml');
  const write = (more: object) => {
    const account = { name: 'a', baseUrl: 'http://127.0.0.1:9', token: 'token-canary-a', ...more };
    const common = { server: { listen: '127.0.0.1:0' }, log: { level: 'silent' }, store: { kind: 'memory' } };
    writeFileSync(file, JSON.stringify({ ...common, accounts: [account] }));
  };
  write({});
  const openStore = async () => store;
  const agent = await startAgent(loadConfig(file, {}), { env: {}, clock, random: () => 0, openStore });
  let closed: Promise<void> | undefined;
  const close = () => {
    closed ??= agent.close();
    return closed;
  };
  afterThisTest(close);
  const passes = (look: () => void) =>
    eventually(async () => {
      await clock.advance(500);
      look();
    });
  await passes(() => expect(agent.status()).toHaveLength(1));
  write({ region: 'x' });
  hanging = 0;
  void agent.reload();
  await eventually(() => expect(hanging).toBeGreaterThan(0));
  let isClosed = false;
  const before = clock.monotonic();
  void close().then(() => {
    isClosed = true;
  });
  await passes(() => expect(isClosed).toBe(true));
  expect(clock.monotonic() - before).toBeLessThan(10_000);
});
