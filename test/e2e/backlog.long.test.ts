import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { openSqliteStore } from '../../src/store/sqlite.ts';
import { startCli } from '../support/cli.ts';
import { afterThisTest } from '../support/client.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { newFolder } from '../support/folder.ts';
import { parseExposition } from '../support/parse-exposition.ts';

const EVENTS = 1_000_000;
const HOUR = 3_600_000;
const STATES = ['created', 'active', 'delivered'] as const;

/** Resident memory of a process, MiB. */
function residentMiB(pid: number): number {
  const [, kib = ''] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kib) / 1024;
}

it('drains a backlog of a million events with bounded memory, while it is scraped', async () => {
  const emulator = await emulateEmpty();
  const now = Date.now();
  const start = now - 3 * HOUR;
  emulator.state.addEvents(
    (function* () {
      for (let index = 0; index < EVENTS; index += 1) {
        const time = start + 1 + Math.floor((index * (3 * HOUR - 60_000)) / EVENTS);
        yield { messageId: `msg_${Math.floor(index / 3)}`, state: STATES[index % 3] ?? 'created', time };
      }
    })(),
  );
  const folder = newFolder();
  // As it would be left by an agent that stopped three hours ago, when nothing had happened yet.
  const path = join(folder, 'store.db');
  const store = await openSqliteStore({ path });
  const times = { floor: start, newest: start, readTo: start, judgedLast: start, sweptTo: start };
  const checkpoint = { ...times, rememberedFrom: start - 60_000, judgedTo: start - 60_000, nextChunk: 0 };
  await store.commit('a', [{ key: 'events/checkpoint', value: JSON.stringify(checkpoint) }]);
  await store.close();
  const file = join(folder, 'config.yaml');
  writeFileSync(
    file,
    JSON.stringify({
      server: { listen: '127.0.0.1:0' },
      store: { path },
      accounts: [
        {
          name: 'a',
          baseUrl: emulator.url,
          token: { env: 'DELIVERY_TOKEN' },
          budget: { requestsPerSecond: 2000, burst: 2000, requestsPerDay: 10_000_000 },
        },
      ],
      collect: { flowControl: { enabled: false }, dlq: { enabled: false } },
    }),
  );
  const agent = startCli(['serve', '--config', file], { DELIVERY_TOKEN: emulator.token });
  afterThisTest(async () => {
    agent.kill('SIGKILL');
    await agent.ended;
  });
  const [, url = ''] = await agent.says(/"url":"([^"]+)"/);
  const seen: number[] = [];
  let [most, slowest] = [0, 0];
  for (const patience = performance.now() + 200_000; performance.now() < patience; ) {
    const before = performance.now();
    const text = await (await fetch(`${url}/metrics`)).text();
    slowest = Math.max(slowest, performance.now() - before);
    most = Math.max(most, residentMiB(agent.pid));
    const families = parseExposition(text, 'text');
    const totals = families.find(({ name }) => name === 'delivery_events_total')?.samples ?? [];
    seen.push(totals.reduce((sum, { value }) => sum + value, 0));
    if (seen.at(-1) === EVENTS) break;
    await sleep(100);
  }
  expect(seen.at(-1)).toBe(EVENTS);
  expect(seen).toEqual(seen.toSorted((a, b) => a - b));
  // It was watched at work, and not only when all was done.
  expect(new Set(seen).size).toBeGreaterThan(5);
  expect(most, `MiB resident; slowest scrape ${Math.round(slowest)} ms of ${seen.length}`).toBeLessThan(500);
  process.stdout.write(
    `${EVENTS} events: at most ${Math.round(most)} MiB, slowest of ${seen.length} scrapes ${Math.round(slowest)} ms\n`,
  );
});
