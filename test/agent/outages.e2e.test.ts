import { describe, expect, it } from 'vitest';
import { openAccount } from '../../src/agent/account.ts';
import { openCore } from '../../src/agent/agent.ts';
import { accountOptions } from '../../src/upstream/options.ts';
import { afterThisTest } from '../support/client.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { Connections, type Response } from '../support/supervised.ts';
import { loadedFrom } from '../support/view-scene.ts';

const SECOND = 1000;
const MINUTE = 60 * SECOND;

const LISTS: Readonly<Record<string, unknown>> = {
  '/v2/dlq': {
    messages: [{ dlqId: '1767225600000-1', messageId: 'm', url: 'https://a.example/x', responseStatus: 500 }],
  },
  '/v2/events': { events: [] },
  '/v2/flowControl': { flowControls: [{ flowControlKey: 'k', waitListSize: 7 }] },
};

const DOWN: Response = { status: 503, body: { error: 'maintenance' } };

const ACCOUNT = {
  name: 'a',
  baseUrl: 'http://service.invalid',
  token: 'token-a',
  budget: { requestsPerSecond: 1000, burst: 1000 },
};

/** Opens an agent with one account. The service returns LISTS, unless `fail` returns another response. */
async function setUp(config: object = {}) {
  const clock = createManualClock();
  const requests: string[] = [];
  const opened: string[] = [];
  const service: { fail: ((path: string) => Response | undefined) | undefined } = { fail: undefined };
  const connections = new Connections(async (signal, full) => {
    const [path = ''] = full.split('?');
    requests.push(path);
    await clock.sleep(10, signal);
    const isWorkflow = full.includes('source=workflow');
    const failure = service.fail?.(path);
    if (failure) return failure;
    const body = isWorkflow ? { messages: [] } : LISTS[path];
    return body ? { status: 200, body } : { status: 404, body: {} };
  });
  const loaded = (account: object = {}, more: object = {}) =>
    loadedFrom({ accounts: [{ ...ACCOUNT, ...account }], ...config, ...more });
  const core = await openCore(loaded(), {
    env: { OTHER: 'token-a', ACTION: 'token-b' },
    clock,
    random: () => 0.5,
    intervals: { act: MINUTE, orders: MINUTE, retry: MINUTE },
    async openAccount(settings, deps, last) {
      opened.push(settings.name);
      return openAccount(settings, { ...deps, dispatchers: { for: () => connections } }, last);
    },
  });
  afterThisTest(async () => {
    await core.stop();
    await core.close();
  });
  function view() {
    const found = core.served.views().account('a');
    if (!found) throw new Error('the account is unknown');
    return found;
  }
  const round = (collector: string, name: string) =>
    view().rounds.find(each => each.collector === collector && each.round === name);
  return {
    core,
    clock,
    service,
    requests,
    opened,
    view,
    round,
    reload: (account: object, more: object = {}) => core.supervisor.reload(loaded(account, more)),
    count: (path: string) => requests.filter(each => each === path).length,
  };
}

const HOURLY = { collect: { dlq: { rescanEvery: '1h' } } };

describe('retries', () => {
  it('a service that fails during the first second delays the first walk by seconds, not by rescanEvery', async () => {
    const { core, clock, service, view, round } = await setUp(HOURLY);
    service.fail = () => DOWN;
    core.start();
    await clock.advance(3 * SECOND);
    expect(round('dlq', 'full')).toMatchObject({ dataAt: null, consecutiveFailures: 1 });
    service.fail = undefined;
    await clock.advance(5 * SECOND);
    expect(view().deadLetters).toMatchObject({ data: 'fresh', messages: 1 });
  });

  it.each<[string, (path: string) => Response | undefined]>([
    ['the whole service', () => DOWN],
    ['the dead-letter queue alone', path => (path === '/v2/dlq' ? DOWN : undefined)],
    ['a service without lists', () => ({ status: 200, body: { message: 'maintenance' } })],
    ['a service that forbids reading', () => ({ status: 403, body: {} })],
  ])('after an outage of 20 minutes of %s, all rounds complete within seconds', async (_what, fail) => {
    const { core, clock, service, view, count } = await setUp({ collect: { dlq: { rescanEvery: '10m' } } });
    core.start();
    await clock.advance(5 * MINUTE);
    service.fail = fail;
    await clock.advance(20 * MINUTE);
    const before = count('/v2/dlq');
    service.fail = undefined;
    const recoveredAt = clock.now();
    await clock.advance(31 * SECOND);
    for (const { collector, round, dataAt } of view().rounds) {
      if (collector !== 'dlq' && round !== 'list') continue;
      expect([round, Date.parse(dataAt ?? '') >= recoveredAt]).toEqual([round, true]);
    }
    expect(count('/v2/dlq') - before).toBeLessThan(12);
  });

  it('a failed walk is repeated as soon as another list can be read again', async () => {
    const { core, clock, service, round } = await setUp(HOURLY);
    service.fail = () => DOWN;
    core.start();
    await clock.advance(MINUTE);
    service.fail = path => (path === '/v2/dlq' ? DOWN : undefined);
    await clock.advance(MINUTE);
    const failures = round('dlq', 'full')?.consecutiveFailures ?? 0;
    service.fail = path => (path === '/v2/events' ? DOWN : undefined);
    await clock.advance(35 * SECOND);
    expect(failures).toBeGreaterThan(3);
    expect(round('dlq', 'full')).toMatchObject({ state: 'ok', consecutiveFailures: 0, retryAt: null });
  });

  it('retries during an outage of the queue send no more requests than rounds at the shortest interval would', async () => {
    const { core, clock, service, count } = await setUp(HOURLY);
    service.fail = path => (path === '/v2/dlq' ? { status: 500, body: {} } : undefined);
    core.start();
    await clock.advance(60 * MINUTE);
    // Each attempt sends a request up to four times.
    expect(count('/v2/dlq')).toBeLessThan(4 * (120 + 10));
  });

  it('a rate-limited walk backs off up to its own interval, and no request is sent during a pause that the service asks for', async () => {
    const { core, clock, service, requests, count, round } = await setUp(HOURLY);
    service.fail = path => (path === '/v2/dlq' ? { status: 429, body: {} } : undefined);
    core.start();
    await clock.advance(60 * MINUTE);
    expect(count('/v2/dlq')).toBeLessThan(4 * 14);
    service.fail = () => ({ status: 429, headers: { 'retry-after': '120' }, body: {} });
    await clock.advance(MINUTE);
    const [sent, pausedAt] = [requests.length, clock.now()];
    expect(Date.parse(round('flow_control', 'list')?.retryAt ?? '')).toBeGreaterThan(pausedAt + 30 * SECOND);
    await clock.advance(50 * SECOND);
    expect(requests.length).toBe(sent);
  });

  it('a rejected token is not sent again by retries', async () => {
    const { core, clock, service, requests } = await setUp(HOURLY);
    service.fail = () => ({ status: 401, body: {} });
    core.start();
    await clock.advance(4 * MINUTE);
    // Each of the collectors' first requests, and then one request a minute.
    expect(requests.length).toBeLessThanOrEqual(10);
  });

  it('rounds and the report show the time of the next attempt', async () => {
    const { core, clock, service, view, round } = await setUp(HOURLY);
    core.start();
    await clock.advance(MINUTE);
    service.fail = () => DOWN;
    await clock.advance(5 * MINUTE + 3 * SECOND);
    const next = Date.parse(round('dlq', 'full')?.retryAt ?? round('dlq', 'new')?.retryAt ?? '');
    expect(next).toBeGreaterThan(clock.now());
    const [problem] = view().problems;
    expect(problem).toMatchObject({ kind: 'service_unavailable' });
    const { accounts } = await core.served.views().report();
    expect(accounts[0]?.unknown.every(({ retryAt }) => Date.parse(retryAt ?? '') > clock.now() - 3 * SECOND)).toBe(
      true,
    );
  });
});

/** Changes that do not affect reads: the account is not reopened. */
const UNREAD: readonly (readonly [key: string, account: object, more?: object])[] = [
  ['actionToken', { actionToken: { env: 'ACTION' } }],
  ['management', { management: { baseUrl: 'http://m.invalid', username: 'u', password: 'p' } }],
  ['labels', { labels: { team: 'x' } }],
  ['limits', { limits: { dlqSize: 10 } }],
  ['plan', { plan: 'free' }],
  ['retention', { retention: { events: '3d' } }],
  ['paths', { paths: { rotateToken: '/rotate' } }],
  ['objectives', { objectives: { window: '7d' } }],
  ['alerts', {}, { alerts: { enabled: true, evaluateEvery: '30s', builtin: { disable: ['dlq_old'] } } }],
  [
    'autoCancel',
    {},
    { autoCancel: { mode: 'plan', rules: [{ name: 'r', match: { url: { prefix: ['https://a/'] } } }] } },
  ],
];

/** Changes of how the same account is read: it is reopened and keeps its data. */
const READ: readonly (readonly [key: string, account: object, more?: object])[] = [
  ['token', { token: { env: 'OTHER' } }],
  ['budget', { budget: { requestsPerSecond: 900, burst: 900 } }],
  ['region', { region: 'eu' }],
  ['regionalBaseUrl', { regionalBaseUrl: 'http://regional.invalid' }],
  ['retention', { retention: { dlq: '3d' } }],
  ['paths', { paths: { events: '/v2/events' } }],
  ['upstream', { upstream: { timeout: '20s' } }],
  ['objectives', { objectives: { onTimeWithin: '1m' } }],
  ['collect', { collect: { dlq: { filters: [{ name: 'f', match: { queueName: 'q' } }] } } }],
  ['collect', { collect: { flowControl: { exclude: ['x*'] }, events: { window: '10m' }, dlq: { breakdowns: [] } } }],
  ['staleness', {}, { staleness: { markAfter: 4 } }],
];

describe('reload during an outage', () => {
  const KEYS = new Set([...UNREAD, ...READ].map(([key]) => key));

  it('the tables of configuration changes in this test contain every key of an account except name and baseUrl', () => {
    const all = [...Object.keys(accountOptions.shape), 'collect', 'upstream', 'objectives'];
    expect(all.filter(key => !KEYS.has(key))).toEqual(['name', 'baseUrl']);
  });

  it.each(
    [...UNREAD.map(row => [...row, 0] as const), ...READ.map(row => [...row, 1] as const)].map(
      row => [row[0], row] as const,
    ),
  )('a reload that changes %s keeps all previously read data', async (_key, row) => {
    const [, account, more, reopened] = [row[0], row[1], row.length === 4 ? row[2] : {}, row.at(-1)];
    const alerts = { alerts: { enabled: true, evaluateEvery: '30s', notifiers: [] } };
    const { core, clock, service, view, opened, reload } = await setUp(alerts);
    core.start();
    await clock.advance(MINUTE);
    service.fail = () => DOWN;
    await clock.advance(6 * MINUTE);
    const shown = () => {
      const { problems, alerts, deadLetters, events, flowControl } = view();
      const rounds = view().rounds.filter(({ collector }) => collector !== 'account');
      return {
        rounds: rounds.map(({ collector, round, dataAt, failure }) => [collector, round, dataAt, failure?.message]),
        problems: problems.map(({ kind, subject, since }) => [kind, subject, since]),
        alerts: alerts.map(({ labels, state, startsAt }) => [labels.alertname, state, startsAt]),
        data: [deadLetters.data, deadLetters.messages, events.data, flowControl.data, flowControl.waiting],
      };
    };
    const before = shown();
    expect(before.problems.map(([kind]) => kind)).toEqual(['service_unavailable']);
    await reload(account, { ...alerts, ...more });
    expect(opened).toHaveLength(1 + Number(reopened));
    for (const passed of [0, SECOND, MINUTE]) {
      await clock.advance(passed);
      const after = shown();
      expect({ ...after, data: undefined, rounds: undefined }).toEqual({
        ...before,
        data: undefined,
        rounds: undefined,
      });
      expect(after.rounds.map(([collector, round, dataAt]) => [collector, round, dataAt])).toEqual(
        before.rounds.map(([collector, round, dataAt]) => [collector, round, dataAt]),
      );
      if (passed < MINUTE) expect(after.data).toEqual(before.data);
      expect(JSON.stringify([view().problems, view().alerts])).not.toContain('since the agent started');
    }
  });

  it('a reload that changes baseUrl removes all data read from the previous URL', async () => {
    const { core, clock, service, view, reload } = await setUp();
    core.start();
    await clock.advance(MINUTE);
    service.fail = () => DOWN;
    await clock.advance(10 * MINUTE);
    await reload({ baseUrl: 'http://other.invalid' });
    expect(
      view()
        .rounds.map(({ dataAt }) => dataAt)
        .filter(dataAt => dataAt !== null),
    ).toEqual([]);
    expect(view()).toMatchObject({ problems: [], deadLetters: { data: 'not_read', messages: null } });
    service.fail = undefined;
    await clock.advance(5 * SECOND);
    expect(view()).toMatchObject({ problems: [], deadLetters: { data: 'fresh', messages: 1 } });
  });

  it('repeated reloads do not delay the withdrawal of data', async () => {
    const { core, clock, service, view, reload } = await setUp();
    core.start();
    await clock.advance(MINUTE);
    service.fail = () => DOWN;
    for (const requestsPerSecond of [900, 800, 700]) {
      await clock.advance(9 * MINUTE);
      await reload({ budget: { requestsPerSecond } });
    }
    expect(view().flowControl.data).toBe('withdrawn');
    await clock.advance(4 * MINUTE);
    expect(view().deadLetters).toMatchObject({ data: 'withdrawn', messages: null });
  });

  it('a pause that the service requested continues after a reload', async () => {
    const { core, clock, service, requests, reload } = await setUp();
    core.start();
    await clock.advance(MINUTE);
    service.fail = () => ({ status: 429, headers: { 'retry-after': '300' }, body: {} });
    await clock.advance(MINUTE);
    const sent = requests.length;
    await reload({ budget: { requestsPerSecond: 900 } });
    await clock.advance(2 * MINUTE);
    expect(requests.length).toBe(sent);
  });

  it('a filter with a changed match shows no data of the previous match, and other filters keep their data', async () => {
    const filters = (queueName: string) => ({
      collect: {
        dlq: {
          filters: [
            { name: 'kept', match: { responseStatus: 500 } },
            { name: 'f', match: { queueName } },
          ],
        },
      },
    });
    const { core, clock, service, view, reload } = await setUp(filters('q'));
    core.start();
    await clock.advance(MINUTE);
    service.fail = () => DOWN;
    await reload({}, filters('r'));
    expect(view().deadLetters.filters.map(({ name, messages }) => [name, messages !== null])).toEqual([
      ['kept', true],
      ['f', false],
    ]);
  });

  it('changed limits apply at once', async () => {
    const { core, clock, view, reload } = await setUp();
    core.start();
    await clock.advance(MINUTE);
    await reload({ limits: { dlqSize: 42 }, objectives: { dlqMaxAge: '2d' } });
    expect(view().deadLetters.most).toBe(42);
    await reload({});
    expect(view().deadLetters.most).toBe(null);
  });
});
