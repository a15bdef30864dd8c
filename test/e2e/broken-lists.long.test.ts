import { expect, it } from 'vitest';
import { FIELD } from '../hostile/answer-services.ts';
import { HEALTHY, healthyResponse } from '../hostile/healthy-service.ts';
import { LISTS, type List } from '../hostile/service.ts';
import { startAgent } from '../support/agent.ts';
import { eventually } from '../support/eventually.ts';
import { json, serve } from '../support/http-service.ts';

type Row = Readonly<Record<string, unknown>>;

/** Returns an altered version of the correct response to a list request. */
type ResponseChange = (right: Readonly<Record<string, unknown>>, list: List) => unknown;

/** Renames all fields of a row, which makes it unreadable. */
const renamed = (row: Row) => Object.fromEntries(Object.entries(row).map(([name, value]) => [`x_${name}`, value]));
const withRows =
  (change: (rows: readonly Row[]) => readonly unknown[]): ResponseChange =>
  (right, list) => ({ ...right, [FIELD[list]]: change(right[FIELD[list]] as readonly Row[]) });

const unchanged: ResponseChange = right => right;

const BROKEN: Readonly<Record<string, ResponseChange>> = {
  'every row unreadable': (_right, list) => ({ [FIELD[list]]: [renamed({ dlqId: 'a', time: 1 }), renamed({})] }),
  'a message in place of the list': () => ({ message: 'maintenance' }),
  'an error next to an empty list': (_right, list) => ({ [FIELD[list]]: [], error: 'upstream is not available' }),
  'an error next to the rows': right => ({ ...right, error: 'upstream is not available' }),
  'a row that is null': (_right, list) => ({ [FIELD[list]]: [null] }),
  'null in place of the list, next to another field': (_right, list) => ({ [FIELD[list]]: null, total: 250 }),
  'a list of another type': (_right, list) => ({ [FIELD[list]]: {} }),
  'a list under another name': (right, list) => ({ entries: right[FIELD[list]] }),
};

const PATHS: Readonly<Record<string, List>> = {
  '/v2/dlq': 'dlq',
  '/v2/events': 'events',
  '/v2/flowControl': 'flow_control',
};
const DECIDING = { dlq: 'full', events: 'tail', flow_control: 'list' } as const;

const above = (metric: string, labels: Readonly<Record<string, string>>, value: number) => ({
  above: { metric, labels, value },
});
/** Rules that fire on a healthy service and would resolve on an empty or partial list. */
const RULES = [
  { name: 'Dead', when: above('delivery_dlq_messages', {}, HEALTHY.deadLetters - 1) },
  {
    name: 'Status',
    when: above('delivery_dlq_messages_by_response_status', { response_status: '500' }, HEALTHY.deadLetters - 1),
  },
  { name: 'Waiting', when: above('delivery_flow_control_waitlist_size', { flow_control_key: 'a\\b' }, 2) },
  { name: 'Failing', when: above('delivery_events_recent', { state: 'failed' }, 8) },
];

/** Starts a service with changeable responses, and the agent as a process. */
async function setUp() {
  let change = unchanged;
  const service = await serve((request, response) => {
    const { pathname, searchParams: query } = new URL(request.url ?? '', 'http://service');
    const list = PATHS[pathname];
    if (list) json(response, change(healthyResponse({ list, path: pathname, query }) as Row, list));
    else json(response, { error: 'not found' }, 404);
  });
  const every = '200ms';
  const config = {
    accounts: [
      {
        name: 'a',
        baseUrl: service.url,
        token: { env: 'DELIVERY_TOKEN' },
        budget: { requestsPerSecond: 500, burst: 100, requestsPerDay: 10_000_000 },
      },
    ],
    collect: {
      dlq: { every, rescanEvery: '400ms' },
      flowControl: { every },
      events: { every, window: `${HEALTHY.window}s`, lateSweep: '2m' },
    },
    // Delays withdrawal until after the test, because withdrawal would also remove series.
    staleness: { withdrawAfter: 10_000, withdrawAtMost: '1h' },
    alerts: { enabled: true, builtin: null, evaluateEvery: '100ms', rules: RULES },
  };
  const agent = await startAgent(config);
  const scrape = async () => (await agent.scrape()).sum;
  async function alerts() {
    const shown = JSON.parse(await agent.get('/api/v1/alerts')) as readonly {
      readonly state: string;
      readonly startsAt: string;
      readonly labels: Row;
    }[];
    return shown.map(({ state, startsAt, labels }) => `${labels.alertname} ${state} ${startsAt}`).sort();
  }
  return {
    scrape,
    alerts,
    answer(next: ResponseChange) {
      change = next;
    },
  };
}

type Values = Awaited<ReturnType<Awaited<ReturnType<typeof setUp>>['scrape']>>;

/** Checks the values of a healthy service, which must be preserved during failures. `isReadable`: whether all its rows are. */
function expectHealthy(value: Values, isReadable = true): void {
  expect(value('delivery_dlq_messages')).toBe(HEALTHY.deadLetters);
  expect(value('delivery_dlq_left_total')).toBe(0);
  expect(value('delivery_dlq_entered_total')).toBe(0);
  expect(value('delivery_flow_control_keys')).toBe(3);
  expect(value('delivery_flow_control_waitlist_size', { flow_control_key: 'orders' })).toBe(7);
  expect(value('delivery_flow_control_waitlist_size', { flow_control_key: 'a\\b' })).toBe(isReadable ? 3 : undefined);
}

const eachRound = (value: Values, family: string) =>
  LISTS.map(collector => value(`delivery_collector_${family}`, { collector, round: DECIDING[collector] }));

it('the agent uses no data from an invalid list response and resolves no alert because of it', async () => {
  const { scrape, alerts, answer } = await setUp();
  await eventually(async () => {
    expectHealthy(await scrape());
    expect((await alerts()).filter(alert => alert.includes('firing'))).toHaveLength(RULES.length);
  });
  const firing = await alerts();
  for (const [how, change] of Object.entries(BROKEN)) {
    const missing = eachMissing(await scrape());
    answer(change);
    await eventually(async () => {
      const value = await scrape();
      for (const failures of eachRound(value, 'consecutive_failures')) expect(failures, how).toBeGreaterThan(1);
    });
    const value = await scrape();
    expectHealthy(value);
    expect(value('delivery_events_recent', { state: 'failed' }), how).toBeGreaterThan(8);
    expect(value('delivery_up'), how).toBe(0);
    for (const [index, count] of eachMissing(value).entries()) expect(count, how).toBeGreaterThan(missing[index] ?? 0);
    expect(value('delivery_rows_rejected_total'), how).toBe(0);
    expect(await alerts(), how).toEqual(firing);
    answer(unchanged);
    await eventually(async () => {
      const value = await scrape();
      expect(eachRound(value, 'consecutive_failures'), how).toEqual([0, 0, 0]);
    });
    expectHealthy(await scrape());
    expect(await alerts(), how).toEqual(firing);
  }
});

const eachMissing = (value: Values) =>
  LISTS.map(collector => value('delivery_lists_missing_total', { collector }) ?? 0);

it('the agent reports a list with some unreadable rows as incomplete and still exposes its data', async () => {
  const { scrape, alerts, answer } = await setUp();
  await eventually(async () => {
    expectHealthy(await scrape());
    expect(eachRound(await scrape(), 'data_complete')).toEqual([1, 1, 1]);
    expect((await alerts()).filter(alert => alert.includes('firing'))).toHaveLength(RULES.length);
  });
  const firing = await alerts();
  answer(withRows(rows => rows.map((row, index) => (index % 3 > 0 ? renamed(row) : row))));
  await eventually(async () => {
    const value = await scrape();
    expect(eachRound(value, 'data_complete')).toEqual([0, 0, 0]);
    for (const collector of LISTS) expect(value('delivery_rows_rejected_total', { collector })).toBeGreaterThan(0);
  });
  const rejected = (await scrape())('delivery_rows_rejected_total', { collector: 'dlq' }) ?? 0;
  await eventually(async () => {
    expect((await scrape())('delivery_rows_rejected_total', { collector: 'dlq' })).toBeGreaterThan(2 * rejected);
  });
  const value = await scrape();
  expectHealthy(value, false);
  expect(eachRound(value, 'success')).toEqual([1, 1, 1]);
  expect(value('delivery_up')).toBe(1);
  expect(eachMissing(value)).toEqual([0, 0, 0]);
  expect(await alerts()).toEqual(firing);
  answer(unchanged);
  await eventually(async () => expect(eachRound(await scrape(), 'data_complete')).toEqual([1, 1, 1]));
  expectHealthy(await scrape());
  expect(await alerts()).toEqual(firing);
});
