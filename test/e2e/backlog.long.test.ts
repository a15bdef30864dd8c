import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { openSqliteStore } from '../../src/store/sqlite.ts';
import { createAgent, unlimited } from '../support/agent.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { atThisLoad } from '../support/eventually.ts';
import { parseExposition } from '../support/parse-exposition.ts';

const EVENTS = 1_000_000;
const HOUR = 3_600_000;
const STATES = ['created', 'active', 'delivered'] as const;

/** Returns the resident memory of a process (MiB). */
function residentMiB(pid: number): number {
  const [, kib = ''] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kib) / 1024;
}

it('the agent reads a backlog of a million events with bounded memory while it is scraped', async () => {
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
  const agent = createAgent(
    {
      accounts: [unlimited('a', emulator.url)],
      collect: { flowControl: { enabled: false }, dlq: { enabled: false } },
    },
    { DELIVERY_TOKEN: emulator.token },
  );
  // Stores the state of an agent that was stopped three hours ago, before the first event.
  const store = await openSqliteStore({ path: agent.store });
  const times = { floor: start, newest: start, readTo: start, judgedLast: start, sweptTo: start };
  const checkpoint = {
    ...times,
    lags: { since: start, now: 0, before: 0 },
    rememberedFrom: start - 60_000,
    judgedTo: start - 60_000,
    nextChunk: 0,
  };
  await store.commit('a', [{ key: 'events/checkpoint', value: JSON.stringify(checkpoint) }]);
  await store.close();
  const url = await agent.start();
  const seen: number[] = [];
  let [most, slowest] = [0, 0];
  for (const deadline = performance.now() + atThisLoad(200_000); performance.now() < deadline; ) {
    const before = performance.now();
    const text = await (await fetch(`${url}/metrics`)).text();
    slowest = Math.max(slowest, performance.now() - before);
    most = Math.max(most, residentMiB(agent.process.pid));
    const families = parseExposition(text, 'text');
    const totals = families.find(({ name }) => name === 'delivery_events_total')?.samples ?? [];
    seen.push(totals.reduce((sum, { value }) => sum + value, 0));
    if (seen.at(-1) === EVENTS) break;
    await sleep(100);
  }
  expect(seen.at(-1)).toBe(EVENTS);
  expect(seen).toEqual(seen.toSorted((a, b) => a - b));
  // Scrapes also succeeded while the backlog was read.
  expect(new Set(seen).size).toBeGreaterThan(5);
  expect(most, `MiB resident; slowest scrape ${Math.round(slowest)} ms of ${seen.length}`).toBeLessThan(500);
  process.stdout.write(
    `${EVENTS} events: at most ${Math.round(most)} MiB, slowest of ${seen.length} scrapes ${Math.round(slowest)} ms\n`,
  );
});
