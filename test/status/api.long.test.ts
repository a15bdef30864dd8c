import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { hashSync } from 'bcryptjs';
import { expect, it } from 'vitest';
import { startAgent } from '../../src/agent/agent.ts';
import type { Explanation } from '../../src/auto-cancel/account.ts';
import type { JournalLine } from '../../src/auto-cancel/journal.ts';
import { loadConfig } from '../../src/config/load.ts';
import { acceleratedClock, systemClock } from '../../src/kit/clock.ts';
import type { CommandResult } from '../../src/model/operator-command.ts';
import type { AccountView } from '../../src/status/api/account.ts';
import type { AutoCancelView } from '../../src/status/api/auto-cancel.ts';
import type { AccountReport } from '../../src/status/api/report.ts';
import { API_ENDPOINTS } from '../../src/status/endpoints.ts';
import { RequestError } from '../../src/status/lookups.ts';
import { openAccountRecord } from '../../src/store/account-row.ts';
import { ALICE, serve, USERS } from '../http/protected-server.ts';
import { afterThisTest } from '../support/client.ts';
import { createDescribed, DESCRIPTION, type Described } from '../support/described.ts';
import { emulate } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';
import { emptyViews, type ServedChanges } from './empty-served.ts';
import { account, withdrawn } from './page/fixtures/account.ts';
import { autoCancel } from './page/fixtures/auto-cancel.ts';
import { found, lookupsThat } from './page/fixtures/lookup.ts';
import { overview, row } from './page/fixtures/overview.ts';

const HOUR = 3_600_000;
const ACCOUNT = '/api/v1/accounts/{name}';
const [APPROVE, PAUSE, RESUME] = ['approve', 'pause', 'resume'].map(verb => `/api/v1/auto-cancel/${verb}`) as [
  string,
  string,
  string,
];
const FAMILIES = ['delivery_dlq_messages', 'delivery_messages_finished_total'].map(name => `family=${name}`).join('&');

/** Factor by which the agent's clock runs faster than real time. */
const SPEED = 20;

/** Starts an agent with a faster clock, an account that has data of every kind and an account with a rejected token. */
async function startBusyAgent(described: Described) {
  const clock = acceleratedClock(systemClock, SPEED);
  const emulator = await emulate({ scenario: 'neglected', clock, dialect: { flowControlFields: 'all' } });
  emulator.dialect.filters = { topicName: 'ignored' };
  emulator.state.addDlqEntry({ topicName: 'orders', scheduleId: 'scd_1', queueName: 'q' });
  for (const [hours, host] of [
    [3, 'flow'],
    [4, 'flow'],
    [5, 'plan'],
  ] as const) {
    const workflowUrl = `https://${host}.example.com/run?key=secret`;
    emulator.state.addFailedRun({
      enteredAt: clock.now() - hours * HOUR,
      workflowUrl,
      url: workflowUrl,
      maxRetries: 0,
    });
  }
  const folder = newFolder();
  const [file, web] = [join(folder, 'config.yaml'), join(folder, 'web.yaml')];
  writeFileSync(web, JSON.stringify({ basic_auth_users: { ann: hashSync('pw', 4) } }));
  const store = { kind: 'sqlite' as const, path: join(folder, 'store.db') };
  const account = (name: string, token: string, baseUrl = emulator.url) => ({
    name,
    baseUrl,
    token,
    region: 'eu',
    labels: { team: 'payments' },
    limits: { dlqSize: 1000 },
    retention: { dlq: '7d' },
    budget: { requestsPerSecond: 1000, burst: 1000 },
  });
  const stuckWhen = { inProgressFor: '20s', assumeMaxRetries: 0, assumeTimeout: '1s', pastRetryWindow: 1 };
  const planned = { name: 'planned', match: { workflowUrl: { prefix: ['https://plan.example.com/'] } }, grace: '0s' };
  const rule = {
    name: 'r',
    mode: 'approve',
    expires: '2099-01-01',
    match: { workflowUrl: { prefix: ['https://flow.example.com/'] } },
    grace: '0s',
  };
  const config = {
    server: { listen: '127.0.0.1:0', lifecycle: true, webConfigFile: web },
    log: { level: 'silent' },
    store,
    accounts: [account('busy', emulator.token), account('refused', 'x'), account('away', 'x', 'http://127.0.0.1:1')],
    collect: {
      dlq: {
        filters: [
          { name: 'errors', match: { responseStatus: 500 } },
          { name: 'ignored', match: { topicName: 'other' } },
        ],
        rescanEvery: '10s',
      },
      events: { destination: 'host' },
    },
    schedules: [
      {
        name: 'reports',
        match: { scheduleId: 'scd_7minutely' },
        cron: '* * * * *',
        tz: 'UTC',
        grace: '59s',
        endsWithin: '5m',
      },
    ],
    alerts: {
      enabled: true,
      evaluateEvery: '1s',
      rules: [
        { name: 'Any', when: { above: { metric: 'delivery_dlq_messages', value: 0 } }, annotations: { summary: 's' } },
        { name: 'Refused', when: { above: { metric: 'delivery_token_rejected', value: 0 } } },
        { name: 'Paused', when: { above: { metric: 'delivery_auto_cancel_paused', value: 0 } } },
      ],
      silences: [{ match: { alertname: 'Refused' }, until: '2099-01-01T00:00:00Z', reason: 'known' }],
      notifiers: [{ name: 'ops', alertmanager: { urls: ['http://127.0.0.1:1'] } }],
    },
    autoCancel: {
      mode: 'enforce',
      stopFile: join(folder, 'STOP'),
      breaker: { candidates: { percent: 100 } },
      rules: [rule, planned].map(each => ({ ...each, stuckWhen })),
    },
  };
  const write = (more: object) => writeFileSync(file, JSON.stringify({ ...config, ...more }));
  write({});
  const loaded = loadConfig(file, {});
  const agent = await startAgent(loaded, { env: {}, clock, random: () => 0.5 });
  afterThisTest(() => agent.close());
  const headers = { authorization: `Basic ${btoa('ann:pw')}` };
  return {
    write,
    autoCancel: config.autoCancel,
    learnPlan: () =>
      openAccountRecord(loaded.config.store, 'busy', {}).write({
        plan: 'paid',
        limits: {},
        resetAt: clock.now(),
        token: 'sha256:0',
      }),
    async get(path: string, of = path.replace(/\?.*/, '')): Promise<unknown> {
      return described.check('get', of, await fetch(agent.url + path, { headers }));
    },
    /** Sends a POST request, checks the response against its description and returns the status code. */
    async post(path: string, body?: object): Promise<number> {
      const json = body ? { 'content-type': 'application/json' } : {};
      const init = {
        method: 'POST',
        headers: { ...headers, ...json },
        ...(body ? { body: JSON.stringify(body) } : {}),
      };
      const response = await fetch(agent.url + path, init);
      await described.check('post', path, response, body);
      return response.status;
    },
  };
}

type BusyAgent = Awaited<ReturnType<typeof startBusyAgent>>;

async function askAll({ get }: BusyAgent): Promise<AutoCancelView> {
  for (const path of ['overview', 'report', 'status', 'alerts', 'journal', 'sd']) await get(`/api/v1/${path}`);
  for (const path of ['dlq', 'events', 'messages/unknown']) {
    for (const name of ['busy', 'refused', 'nobody'])
      await get(`/api/v1/${path}?account=${name}`, `/api/v1/${path.replace('unknown', '{id}')}`);
  }
  for (const name of ['busy', 'refused', 'away', 'nobody']) {
    await get(`/api/v1/accounts/${name}`, ACCOUNT);
    await get(`/api/v1/accounts/${name}/history?${FAMILIES}`, `${ACCOUNT}/history`);
  }
  return (await get('/api/v1/auto-cancel')) as AutoCancelView;
}

/** Performs operators' actions and requests all routes in between. */
async function operate(agent: BusyAgent): Promise<void> {
  const { get, post, write, learnPlan, autoCancel } = agent;
  // Request all routes before the agent's first read.
  await askAll(agent);
  for (const path of ['/-/healthy', '/-/ready', '/api/v1/openapi.json']) await get(path);
  const waiting = await eventually(async () => {
    const found = (await askAll(agent)).candidates.find(({ mayApprove }) => mayApprove);
    if (!found?.action) throw new Error('nothing waits for approval');
    return found;
  });
  await get(`/api/v1/explain?id=${waiting.dlqId}`);
  // Repeat a command that was not executed in time (202). A repeated command may conflict with the first (409).
  const command = (path: string, body: object) =>
    eventually(async () => expect([200, 409]).toContain(await post(path, body)));
  await command(PAUSE, { reason: 'maintenance' });
  await command(PAUSE, { reason: 'still' });
  await eventually(async () => {
    const [alert] = ((await get('/api/v1/alerts')) as { labels: { alertname: string } }[]).filter(
      ({ labels }) => labels.alertname === 'Paused',
    );
    expect(alert).toBeDefined();
  });
  await askAll(agent);
  await command(RESUME, { reason: 'over' });
  await command(APPROVE, { action: waiting.action });
  // An approval only applies to the rules in effect when it was given: wait for the cancel before changing them.
  await eventually(async () => {
    const lines = (await get('/api/v1/journal')) as { step: string }[];
    expect(lines.map(({ step }) => step)).toContain('intent');
  });
  await learnPlan();
  write({ collect: { dlq: { every: '0s' } } });
  await post('/-/reload');
  await askAll(agent);
  // The second stuck callback exceeds this limit.
  write({ autoCancel: { ...autoCancel, breaker: { candidates: { max: 0 } } } });
  await post('/-/reload');
}

const TARGET = {
  account: 'a',
  id: '1-0',
  dlqId: '1-0',
  messageId: 'm',
  workflowRunId: 'w',
  episode: 'e',
  url: undefined,
  workflowUrl: undefined,
  responseStatus: undefined,
};
const OF = { account: 'a', at: 1, action: 'ab' };
/** Journal lines of rare events. */
const LINES: readonly JournalLine[] = [
  {
    ...{ ...OF, step: 'intent', attempt: 1, rule: 'r', mode: 'enforce', blind: false, target: TARGET, evidence: [] },
    ...{ sendBy: 2, policy: 'p', replica: 'one', approvedBy: 'ann' },
  },
  { ...OF, step: 'cleared', reason: 'not_tracked' },
  {
    ...OF,
    step: 'intent',
    attempt: 1,
    rule: 'r',
    mode: 'enforce',
    blind: false,
    target: TARGET,
    evidence: [],
    sendBy: 2,
    policy: 'p',
    replica: 'one',
  },
  { ...OF, step: 'answered', attempt: 1, answer: { kind: 'limited', status: 429, retryAfter: 1000 } },
  { ...OF, step: 'answered', attempt: 1, answer: { kind: 'not_sent', why: 'too_late' } },
  { ...OF, step: 'ended', outcome: 'gone', rule: 'r', mode: 'enforce', reason: 'x', target: TARGET, unproven: true },
  { account: 'a', at: 1, step: 'breaker_opened', breaker: 'errors', reason: 'x' },
  { account: 'a', at: 1, step: 'breaker_reset', breaker: 'errors', by: 'ann', reason: 'x', order: 'u1' },
  {
    ...{ account: 'a', at: 1, step: 'order_refused', kind: 'approve', about: 'f00' },
    ...{ by: 'ann', reason: 'x', order: 'u2' },
  },
  { account: 'a', at: 1, step: 'paused', by: 'ann', reason: 'x', order: 'u3' },
  { ...OF, step: 'approved', by: 'ann', order: 'u4' },
];
const URL_OF_ANOTHER = 'http://another:10922';
const APPROVED = { account: 'a', action: 'ab', rule: 'r', holds: ['the pause ends'] };
const EXPLAINED: Explanation = {
  account: 'a',
  dlqId: '1-0',
  messageId: 'm',
  url: 'https://a.example/',
  workflowUrl: 'https://a.example/',
  action: 'ab',
  firstSeenAt: 1,
  lastSeenAt: 2,
  snapshots: 3,
  owner: { rule: 'r', mode: 'plan' },
  findings: [],
  held: 'paused',
  paused: { at: 1, by: 'ann', reason: 'x' },
  attempts: 0,
  outcome: 'open',
  mayApprove: false,
};

const STALE_ACCOUNT: AccountReport = {
  account: 'stale',
  verdict: 'unknown',
  problems: [],
  unknown: [
    { collector: 'dlq', data: 'stale', dataAt: '2026-01-01T00:00:00.000Z', failure: 'status 503', retryAt: null },
  ],
  dataAt: '2026-01-01T00:00:00.000Z',
  deadLetters: 1,
};

const RETRIED = (round: AccountView['rounds'][number]) => ({ ...round, retryAt: '2026-01-01T00:00:30.000Z' });

/** The emulated service starts every schedule without an error. */
const FAILED = (schedule: AccountView['schedules'][number]) => ({
  ...schedule,
  error: 'status 503',
  lastFailed: '2026-01-01T00:00:00.000Z',
});

/** Sends a server invalid requests, and requests that lead to every command result. */
async function refuse(described: Described): Promise<void> {
  let answer: CommandResult = 'waiting';
  let failure: RequestError | undefined;
  let shown: AccountView = {
    ...withdrawn,
    rounds: withdrawn.rounds.map(RETRIED),
    schedules: account.schedules.map(FAILED),
  };
  const overrides: ServedChanges = {
    explain: async id => (id === 'none' ? [] : [EXPLAINED]),
    journal: async () => LINES,
    alerts: () => [{ state: 'firing', labels: {}, annotations: {}, value: 1, startsAt: '2026-01-01T00:00:00.000Z' }],
    command: async () => answer,
    status: () => [{ account: 'a', up: true, collectors: [] }],
    overview: async () => overview([row('a')]),
    report: async () => ({
      ...(await emptyViews.report()),
      externalUrl: URL_OF_ANOTHER,
      accounts: [STALE_ACCOUNT],
    }),
    account: () => shown,
    lookups: lookupsThat(async kind => {
      if (failure) throw failure;
      return found[kind];
    }),
    autoCancel: async () => autoCancel,
  };
  const [on, off] = [await serve(USERS, overrides, { lifecycle: true }), await serve(USERS, overrides)];
  const group = { isLeading: () => false, leader: () => undefined, unavailableSince: () => undefined };
  const standby = await serve(USERS, { ...overrides, group });
  async function ask(method: 'get' | 'post', path: string, more: object = {}, { ask: send } = on): Promise<void> {
    const { status, headers, text } = await send(path, { method: method.toUpperCase(), ...ALICE, ...more });
    const of = path.replace(/\?.*/, '').replace('accounts/a', 'accounts/{name}').replace('messages/m', 'messages/{id}');
    await described.check(method, of, new Response(text, { status, headers: headers as Record<string, string> }));
  }
  const json = (body: unknown) => ({ headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  for (const { path } of API_ENDPOINTS) {
    const filled = path.replace('{name}', 'a').replace('{id}', 'm');
    await ask('get', `${filled}?unknown=1`);
    await ask('get', filled, {}, standby);
  }
  for (const path of ['overview', 'report', 'accounts/a', 'auto-cancel', 'status']) await ask('get', `/api/v1/${path}`);
  shown = account;
  await ask('get', '/api/v1/accounts/a');
  for (const path of ['auto-cancel?account=b', 'explain', 'explain?id=none', 'explain?id=1-0', 'journal', 'alerts'])
    await ask('get', `/api/v1/${path}`);
  for (const path of ['dlq', 'events', 'messages/m']) {
    failure = undefined;
    for (const query of ['', '?account=b']) await ask('get', `/api/v1/${path}${query}`);
    for (const status of [404, 429, 502, 503]) {
      failure = new RequestError(status, 'it failed', 1000);
      if (status !== 404 || path === 'messages/m') await ask('get', `/api/v1/${path}`);
    }
  }
  await ask('get', '/api/v1/explain?id=1-0', {}, standby);
  await ask('get', '/api/v1/sd', {}, standby);
  await ask('get', '/api/v1/journal?since=x');
  await ask('get', '/api/v1/sd', { headers: { host: '?' } });
  for (const path of ['/-/reload', APPROVE, PAUSE, RESUME]) {
    await ask('post', path, {}, off);
    await ask('post', path, { body: 'x' });
    if (path === '/-/reload') continue;
    const body = path === APPROVE ? { action: 'abcdef' } : { reason: 'x' };
    await ask('post', path, json({ other: 1 }));
    await ask('post', path, json({ action: 'x'.repeat(20_000) }));
    const done = path === APPROVE ? APPROVED : { accounts: ['a'], before: { at: 1, by: 'ann', reason: 'x' } };
    const answers: readonly CommandResult[] = [
      ...(path === APPROVE ? ['waiting' as const] : []),
      { ok: false, why: 'it is off' },
      { ok: true, result: done },
    ];
    for (answer of answers) await ask('post', path, json(body));
  }
}

it('API responses match their description in every state, and every described response occurs', async () => {
  const described = createDescribed();
  const agent = await startBusyAgent(described);
  await operate(agent);
  await refuse(described);
  expect(described.missing().responses).toEqual([]);
  await eventually(async () => {
    await askAll(agent);
    expect(described.missing().properties).toEqual([]);
  });
  const document = readFileSync(DESCRIPTION, 'utf8');
  expect(await agent.get('/api/v1/openapi.json')).toEqual(JSON.parse(document));
});
