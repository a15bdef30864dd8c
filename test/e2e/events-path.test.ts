import { expect, it } from 'vitest';
import { startAgent } from '../support/agent.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';

/** Starts the agent and an emulated service that serves its event log at one or both of the paths. */
async function setUp(eventPaths: 'both' | 'events' | 'logs', paths: object = {}) {
  const emulator = await emulateEmpty({ dialect: { eventPaths } });
  const budget = { requestsPerSecond: 500, burst: 100, requestsPerDay: 10_000_000 };
  const { value } = await startAgent(
    {
      store: { kind: 'memory' },
      accounts: [{ name: 'a', baseUrl: emulator.url, token: { env: 'DELIVERY_TOKEN' }, budget, paths }],
      collect: {
        flowControl: { enabled: false },
        dlq: { enabled: false },
        // `lateSweep` does not exceed the overlap, so only the tail round reads the log.
        events: { every: '100ms', overlap: '60s', lateSweep: '60s' },
      },
    },
    emulator.token,
  );
  const calls = (path: string) => emulator.state.calls()[`GET ${path}`] ?? 0;
  return { emulator, value, calls };
}

type Agent = Awaited<ReturnType<typeof setUp>>;

const events = (value: Agent['value'], outcome: string) =>
  value('delivery_watch_api_requests_total', { endpoint: 'events', outcome });
const TAIL = { collector: 'events', round: 'tail' };

it('the agent finds the event log at its newer path and keeps using it', async () => {
  const { emulator, value, calls } = await setUp('logs');
  await eventually(async () => expect(await value('delivery_collector_success', TAIL)).toBe(1));
  emulator.state.addEvents([{ messageId: 'msg_1', state: 'created', time: Date.now() }]);
  await eventually(async () => expect(await value('delivery_events_total', { state: 'created' })).toBe(1));
  await eventually(() => expect(calls('/v2/logs')).toBeGreaterThan(9));
  expect(calls('/v2/events')).toBe(1);
  expect(await events(value, 'not_found')).toBe(1);
  expect(await events(value, 'ok')).toBeGreaterThan(8);
});

it('the agent finds the event log again when it moves', async () => {
  const { emulator, value, calls } = await setUp('both');
  await eventually(() => expect(calls('/v2/events')).toBeGreaterThan(2));
  expect(calls('/v2/logs')).toBe(0);
  emulator.state.dialect.eventPaths = 'logs';
  await eventually(() => expect(calls('/v2/logs')).toBeGreaterThan(5));
  await eventually(async () => expect(await value('delivery_collector_success', TAIL)).toBe(1));
  const before = calls('/v2/events');
  emulator.state.dialect.eventPaths = 'events';
  await eventually(() => expect(calls('/v2/events')).toBeGreaterThan(before + 5));
});

it('the agent requests the event log only at the configured path', async () => {
  const { value, calls } = await setUp('events', { events: '/v2/logs' });
  await eventually(async () => expect(await events(value, 'not_found')).toBeGreaterThan(2));
  expect(calls('/v2/logs')).toBeGreaterThan(2);
  expect(calls('/v2/events')).toBe(0);
  expect(await value('delivery_collector_success', TAIL)).toBe(0);
});
