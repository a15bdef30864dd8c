import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import type { DlqSeed } from '../../src/emulator/added.ts';
import { createAgent } from '../support/agent.ts';
import { createChance } from '../support/chance.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';

const BREAKDOWNS = ['urlHost', 'responseStatus', 'route', 'workflowUrl'];

const chance = createChance();
const upTo = (most: number) => chance.between(0, most - 1);

/** Error responses of destinations, each with a varying id. */
const ERRORS = ['order # is locked', '{"error":{"message":"no user #"},"requestId":"#"}', `\u0000#${'x'.repeat(1000)}`];

async function setUp(dlq: object, entries: number) {
  const emulator = await emulateEmpty();
  const add = (age: number, kind: DlqSeed = {}) => {
    const enteredAt = Date.now() - age;
    const queueName = upTo(2) === 0 ? 'emails' : 'payments';
    const url = `https://${upTo(2) === 0 ? 'a' : 'b'}.example.com/users/${upTo(1_000_000)}?token=canary`;
    const responseBody = (ERRORS[upTo(ERRORS.length)] ?? '').replaceAll('#', String(upTo(1_000_000)));
    const times = { enteredAt, createdAt: enteredAt - 3000 - upTo(60_000) };
    return emulator.state.addDlqEntry({ ...times, queueName, url, responseBody, ...kind });
  };
  const ids = Array.from({ length: entries }, () => add(upTo(60 * 3_600_000)));
  const budget = { requestsPerSecond: 5000, burst: 5000, concurrency: 8, requestsPerDay: 10_000_000 };
  const agent = createAgent(
    {
      accounts: [{ name: 'a', baseUrl: emulator.url, token: { env: 'DELIVERY_TOKEN' }, budget }],
      collect: {
        flowControl: { enabled: false },
        events: { enabled: false },
        dlq: { filters: [{ name: 'emails', match: { queueName: 'emails' } }], breakdowns: BREAKDOWNS, ...dlq },
        routes: ['/users/:id', '/orders/*rest'],
      },
    },
    { DELIVERY_TOKEN: emulator.token },
  );
  agent.launch();
  const highest = new Map<string, number>();
  async function scrape() {
    await agent.process.listensAt();
    const { families, sum } = await agent.scrape();
    for (const { name, type, samples } of families) {
      if (!name.startsWith('delivery_dlq')) continue;
      for (const { labels, value } of samples) {
        expect(JSON.stringify(labels)).not.toMatch(/canary|token|locked|users\/\d/);
        if (type !== 'counter') continue;
        const series = `${name} ${JSON.stringify(labels)}`;
        expect(value, `${series} went back`).toBeGreaterThanOrEqual(highest.get(series) ?? 0);
        highest.set(series, value);
      }
    }
    return sum;
  }
  const isEmail = ({ queueName }: { queueName?: string }) => queueName === 'emails';
  const truth = () => ({ all: emulator.state.countDlq(), emails: emulator.state.countDlq(isEmail) });
  const sizes = (value: Awaited<ReturnType<typeof scrape>>) => ({
    all: value('delivery_dlq_messages'),
    emails: value('delivery_dlq_filter_messages', { filter: 'emails' }),
  });
  async function kill() {
    expect(await agent.end()).toBe('SIGKILL');
    agent.launch();
  }
  return { emulator, ids, add, scrape, truth, sizes, kill };
}

it('the agent counts added and removed entries exactly, even if it is killed ten times with SIGKILL', async () => {
  const { emulator, ids, add, scrape, truth, sizes, kill } = await setUp(
    { every: '200ms', rescanEvery: '900ms' },
    2500,
  );
  await eventually(async () => expect(sizes(await scrape())).toEqual(truth()));
  let [added, removed] = [0, 0];
  for (let kills = 0; kills < 10; kills += 1) {
    for (const end = performance.now() + 300 + upTo(1500); performance.now() < end; await sleep(20)) {
      for (let count = upTo(4); count > 0; count -= 1) {
        add(0);
        added += 1;
      }
      // Remove only initial entries: an entry that is added and removed between two rounds cannot be counted.
      if (upTo(2) === 0 && emulator.state.removeDlqEntry(ids.splice(upTo(ids.length), 1)[0] ?? '')) removed += 1;
    }
    await kill();
  }
  await eventually(async () => {
    const value = await scrape();
    expect(sizes(value)).toEqual(truth());
    expect(value('delivery_dlq_entered_total')).toBe(added);
    expect(value('delivery_dlq_left_total')).toBe(removed);
  });
  expect(added).toBeGreaterThan(300);
  expect(removed).toBeGreaterThan(50);
  const value = await scrape();
  expect(value('delivery_dlq_messages_by_response_status')).toBe(truth().all);
  expect(value('delivery_dlq_messages_by_route')).toBe(truth().all);
  expect(value('delivery_dlq_messages_by_route', { route: '/users/:id' })).toBe(truth().all);
  expect(value('delivery_dlq_messages_by_workflow_url', { workflow_url: '__none__' })).toBe(truth().all);
  // Two hosts times three responses, which otherwise differ only in their ids. All groups existed at the first walk.
  expect(value('delivery_dlq_groups')).toBe(2 * ERRORS.length);
  expect(value('delivery_dlq_group_messages')).toBe(truth().all);
  expect(value('delivery_dlq_groups_new_total')).toBe(0);
  const url = 'https://a.example.com/orders/7';
  add(0, { url });
  add(0, { url, responseBody: `another ${'y'.repeat(1_000_000)}` });
  await eventually(async () => expect((await scrape())('delivery_dlq_groups_new_total')).toBeGreaterThanOrEqual(2));
  await kill();
  await eventually(async () => {
    const again = await scrape();
    expect(again('delivery_dlq_groups')).toBe(2 * ERRORS.length + 2);
    expect(again('delivery_dlq_groups_new_total')).toBe(2);
    expect(again('delivery_dlq_messages_by_route', { route: '/orders/*rest' })).toBe(2);
  });
});

it('the agent sends one request per round while no entries are added, and detects added entries without a walk', async () => {
  const { emulator, add, scrape, truth, sizes } = await setUp({ every: '250ms', rescanEvery: '1h' }, 1500);
  await eventually(async () => expect(sizes(await scrape())).toEqual(truth()));
  const rounds = async () =>
    (await scrape())('delivery_watch_api_requests_total', { endpoint: 'dlq', outcome: 'ok' }) ?? 0;
  // The first rounds may still be in flight. Each later round is one request for one page.
  const settled = (await rounds()) + 2;
  await eventually(async () => expect(await rounds()).toBeGreaterThan(settled));
  const calls = () => emulator.state.calls()['GET /v2/dlq'] ?? 0;
  const [before, start] = [calls(), performance.now()];
  await eventually(() => expect(calls() - before).toBeGreaterThan(10));
  // A busy machine runs fewer rounds. Rounds start up to 10% early.
  const looks = (performance.now() - start) / 250;
  expect(calls() - before).toBeLessThanOrEqual(Math.ceil(looks / 0.9) + 2);
  for (let count = 0; count < 30; count += 1) add(0);
  await eventually(async () => expect(sizes(await scrape())).toEqual(truth()));
  const value = await scrape();
  expect(value('delivery_dlq_entered_total')).toBe(30);
  expect(value('delivery_dlq_found_by_rescan_total')).toBe(0);
  expect(await rounds()).toBeGreaterThan(10);
});

it('the agent detects removals from a small queue without a walk', async () => {
  const { emulator, ids, scrape, truth, sizes } = await setUp({ every: '250ms', rescanEvery: '1h' }, 40);
  await eventually(async () => expect(sizes(await scrape())).toEqual(truth()));
  for (const id of ids.slice(0, 15)) emulator.state.removeDlqEntry(id);
  await eventually(async () => expect(sizes(await scrape())).toEqual(truth()));
  expect((await scrape())('delivery_dlq_left_total', { reason: 'unknown' })).toBe(15);
});
