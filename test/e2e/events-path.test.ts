import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { startEmulator } from '../../src/emulator/server.ts';
import { startCli } from '../support/cli.ts';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { parseExposition } from '../support/parse-exposition.ts';

const PATIENCE = 40_000;

/** The agent on an emulated service that has its event log at some of the paths. */
async function setUp(eventPaths: 'both' | 'events' | 'logs', paths: object = {}) {
  const emulator = await startEmulator({ workload: false, history: 0, dlqEntries: 0, dialect: { eventPaths } });
  afterThisTest(() => emulator.close());
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-path-'));
  afterThisTest(async () => rmSync(folder, { recursive: true }));
  const file = join(folder, 'config.yaml');
  const budget = { requestsPerSecond: 500, burst: 100, requestsPerDay: 10_000_000 };
  writeFileSync(
    file,
    JSON.stringify({
      server: { listen: '127.0.0.1:0' },
      store: { kind: 'memory' },
      accounts: [{ name: 'a', baseUrl: emulator.url, token: { env: 'DELIVERY_TOKEN' }, budget, paths }],
      collect: {
        flowControl: { enabled: false },
        dlq: { enabled: false },
        // No later than the overlap: only one round reads.
        events: { every: '100ms', overlap: '60s', lateSweep: '60s' },
      },
    }),
  );
  const agent = startCli(['serve', '--config', file], { DELIVERY_TOKEN: emulator.token });
  afterThisTest(async () => {
    agent.kill('SIGKILL');
    await agent.ended;
  });
  const [, url = ''] = await agent.says(/"url":"([^"]+)"/);
  async function value(name: string, labels: Readonly<Record<string, string>>): Promise<number | undefined> {
    const families = parseExposition(await (await fetch(`${url}/metrics`)).text(), 'text');
    return families
      .flatMap(({ samples }) => samples)
      .find(
        sample =>
          sample.name === name && Object.entries(labels).every(([label, wanted]) => sample.labels[label] === wanted),
      )?.value;
  }
  const calls = (path: string) => emulator.state.calls()[`GET ${path}`] ?? 0;
  return { emulator, value, calls };
}

type Agent = Awaited<ReturnType<typeof setUp>>;

const events = (value: Agent['value'], outcome: string) =>
  value('delivery_watch_api_requests_total', { endpoint: 'events', outcome });
const TAIL = { collector: 'events', round: 'tail' };

it('finds the event log under its newer name, and remembers it', { timeout: 120_000 }, async () => {
  const { emulator, value, calls } = await setUp('logs');
  await eventually(async () => expect(await value('delivery_collector_success', TAIL)).toBe(1), PATIENCE);
  emulator.state.addEvents([{ messageId: 'msg_1', state: 'created', time: Date.now() }]);
  await eventually(async () => expect(await value('delivery_events_total', { state: 'created' })).toBe(1), PATIENCE);
  await eventually(() => expect(calls('/v2/logs')).toBeGreaterThan(9), PATIENCE);
  expect(calls('/v2/events')).toBe(1);
  expect(await events(value, 'not_found')).toBe(1);
  expect(await events(value, 'ok')).toBeGreaterThan(8);
});

it('finds it again when it moves, and fails while it is nowhere', { timeout: 120_000 }, async () => {
  const { emulator, value, calls } = await setUp('both');
  await eventually(() => expect(calls('/v2/events')).toBeGreaterThan(2), PATIENCE);
  expect(calls('/v2/logs')).toBe(0);
  emulator.state.dialect.eventPaths = 'logs';
  await eventually(() => expect(calls('/v2/logs')).toBeGreaterThan(5), PATIENCE);
  await eventually(async () => expect(await value('delivery_collector_success', TAIL)).toBe(1), PATIENCE);
  const asked = calls('/v2/events');
  emulator.state.dialect.eventPaths = 'events';
  await eventually(() => expect(calls('/v2/events')).toBeGreaterThan(asked + 5), PATIENCE);
});

it('asks at the path that is configured, and nowhere else', { timeout: 120_000 }, async () => {
  const { value, calls } = await setUp('events', { events: '/v2/logs' });
  await eventually(async () => expect(await events(value, 'not_found')).toBeGreaterThan(2), PATIENCE);
  expect(calls('/v2/logs')).toBeGreaterThan(2);
  expect(calls('/v2/events')).toBe(0);
  expect(await value('delivery_collector_success', TAIL)).toBe(0);
});
