import { readdirSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { systemClock } from '../../../src/kit/clock.ts';
import { answers, configFile, diagnose, NOWHERE, type Service, TOKEN } from '../../support/doctor.ts';
import { atThisLoad } from '../../support/eventually.ts';
import { json, serve } from '../../support/http-service.ts';

it('doctor compares the rows of each filter with its match, and reports a parameter that the service ignores or rejects', async () => {
  const row = { dlqId: '1-0', messageId: 'm', url: 'https://x.test/', queueName: 'q' };
  const service = await serve((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', NOWHERE);
    if (pathname !== '/v2/dlq') json(response, {}, 404);
    else if (searchParams.has('callerIp')) json(response, { error: 'unknown parameter callerIp' }, 400);
    else json(response, { messages: [row, { ...row, dlqId: '2-0' }] });
  });
  const filters = [
    { name: 'by-url', match: { url: 'https://x.test/' } },
    { name: 'by-queue', match: { queueName: 'p' } },
    { name: 'by-label', match: { label: 'x' } },
    { name: 'by-ip', match: { callerIp: '192.0.2.1' } },
  ];
  const { all } = await diagnose(configFile(service, { collect: { dlq: { filters } } }));
  expect(all.filter(line => line.includes(' a filter '))).toEqual([
    'ok a filter by-url: 2 entries',
    'fail a filter by-queue: the service ignores the parameter queueName: 2 of 2 rows do not match → check the match of the filter: docs/collectors.md#filters',
    'warn a filter by-label: 2 entries; rows do not report every field of match → check the match of the filter: docs/collectors.md#filters',
    'fail a filter by-ip: GET /v2/dlq: status 400: unknown parameter callerIp → check the match of the filter: docs/collectors.md#filters',
  ]);
});

it('doctor prints an ok line for each check of a healthy service', async () => {
  const service = await answers();
  const collect = { flowControl: { watch: ['k'] } };
  const { all, statuses, isConfigValid } = await diagnose(configFile(service, { collect }));
  expect(isConfigValid).toBe(true);
  expect(statuses).toEqual({
    configuration: 'ok',
    permissions: 'ok',
    store: 'ok',
    port: 'ok',
    dns: 'ok',
    connection: 'ok',
    clock: 'ok',
    token: 'ok',
    dlq: 'ok',
    events: 'ok',
    'flow control': 'ok',
    schedules: 'ok',
    queues: 'ok',
    'workflow runs': 'ok',
    'flow control key': 'ok',
  });
  expect(all.slice(-10)).toEqual([
    `ok a connection: ${service.url}`,
    "ok a clock: agrees with the service's",
    'ok a token: the service accepts the token in the environment variable DELIVERY_TOKEN',
    'ok a dlq: 1 entries',
    'ok a events: 0 events of the last day',
    'ok a flow control: 1 keys',
    'ok a schedules: 0 schedules',
    'ok a queues: 0 queues',
    'ok a workflow runs: 0 runs',
    'ok a flow control key: /v2/flowControl/{flowControlKey}',
  ]);
  // The doctor reads the service's clock without sending the token, then reads each list once. It sends nothing else.
  const [clock, ...reads] = service.requests.map(request => request.replace(/\?.*/, ''));
  expect(clock).toBe('GET /');
  const lists = [
    'GET /v2/dlq',
    'GET /v2/events',
    'GET /v2/flowControl',
    'GET /v2/flowControl/k',
    'GET /v2/queues',
    'GET /v2/schedules',
    'GET /v2/workflows/logs',
  ];
  expect(reads.sort()).toEqual(lists);
  expect(service.headers[0]?.authorization).toBe(undefined);
});

it('doctor accepts a service that lacks the list of schedules, but not a service that returns 404 for every path', async () => {
  const without = await answers((path, response) => {
    if (path === '/v2/schedules') json(response, {}, 404);
    return path === '/v2/schedules';
  });
  const { of } = await diagnose(configFile(without));
  expect(of('schedules')).toEqual(['skip a schedules: the service has no such list']);
  const nothing = await answers((_, response) => {
    json(response, {}, 404);
    return true;
  });
  expect((await diagnose(configFile(nothing))).of('schedules')).toEqual(['skip a schedules: needs token']);
});

it('doctor leaves no files behind', async () => {
  const file = configFile(await answers());
  await diagnose(file);
  expect(readdirSync(join(file, '..'))).toEqual(['config.yaml']);
});

it('doctor reads the account from the management API, and attributes a failure to the settings of that API', async () => {
  const management = { baseUrl: '', username: 'ops@example.com', password: { env: 'PASSWORD' } };
  const records: Readonly<Record<string, unknown>> = {
    '/v2/qstash/users': { id: 'user-1', state: 'active', type: 'paid', token: 'canary' },
    '/v2/qstash/stats/user-1': { daily_requests: [], dlq_message_count: 3, token: 'canary' },
  };
  const accounts = await serve((request, response) => {
    const record = records[new URL(request.url ?? '', NOWHERE).pathname];
    const isKnown = request.headers.authorization?.startsWith('Basic ');
    json(response, isKnown ? record : {}, isKnown ? 200 : 401);
  });
  const account = { management: { ...management, baseUrl: accounts.url }, paths: { account: '/v2/qstash/users' } };
  const file = configFile(await answers(), {}, account);
  const env = { DELIVERY_TOKEN: TOKEN, PASSWORD: 'p' };
  const { of, all } = await diagnose(file, { env });
  expect(of('account')).toEqual(['ok a account: plan: paid, state: active, requests today: unknown']);
  expect(all.join()).not.toContain('canary');
  const { of: unset } = await diagnose(file, { env: { DELIVERY_TOKEN: TOKEN } });
  expect(unset('account')).toEqual([
    'fail a account: the environment variable PASSWORD contains no token → check management, region and paths.account',
  ]);
});

it('doctor reports a rejected token once and skips the lists', async () => {
  const service = await answers();
  const { all, of } = await diagnose(configFile(service), { env: { DELIVERY_TOKEN: 'another' } });
  expect(of('token')).toEqual([
    'fail a token: the service rejects the token in the environment variable DELIVERY_TOKEN → replace the token: docs/access.md#tokens',
  ]);
  expect(all.slice(-7)).toEqual([
    'skip a dlq: needs token',
    'skip a events: needs token',
    'skip a flow control: needs token',
    'skip a schedules: needs token',
    'skip a queues: needs token',
    'skip a workflow runs: needs token',
    'skip a flow control key: needs token',
  ]);
});

it('doctor shows why the service rejects a token or a request, without showing secrets', async () => {
  const refusing = (status: number, error: string) =>
    answers((path, response) => {
      if (!path.startsWith('/v2/')) return false;
      json(response, { error }, status);
      return true;
    });
  const refused = await diagnose(configFile(await refusing(401, 'token\u001b[31m expired\n')));
  expect(refused.of('token')).toEqual([
    'fail a token: the service rejects the token in the environment variable DELIVERY_TOKEN: token expired → replace the token: docs/access.md#tokens',
  ]);
  const forbidden = await diagnose(configFile(await refusing(403, 'test-token may not read; see ?key=1')), {
    env: { DELIVERY_TOKEN: 'test-token' },
  });
  expect(forbidden.of('dlq')).toEqual([
    'fail a dlq: GET /v2/dlq: status 403: <secret> may not read; see ?key=<secret> → give the token permission to read this, or disable the collector',
  ]);
});

it.each([
  'user (00000000-0000-4000-8000-000000000000) not found in this region (eu-central-1). Check that you are using the correct endpoint.',
  'token not valid in region us-east-1',
  'Wrong region',
  'this region has no such account',
  'no such user: check the endpoint',
  'user does not exist',
])('doctor reports that the token belongs to another region if every path has a 404 with the text %j', async error => {
  const service = await answers((path, response) => {
    if (path.startsWith('/v2/')) json(response, { error }, 404);
    return path.startsWith('/v2/');
  });
  const { of } = await diagnose(configFile(service));
  for (const list of ['dlq', 'events', 'flow control']) {
    expect(of(list)).toEqual([
      expect.stringMatching(/status 404: .* → the token belongs to another region: check baseUrl$/),
    ]);
  }
});

it.each(['', 'not found: /v2/dlq', '404 page not found', 'flow control is not available in this region'])(
  'doctor advises to check the address or to disable the collector after a 404 with the text %j',
  async error => {
    const service = await answers((path, response) => {
      const isMissing = /^\/v2\/(dlq|flowControl)$/.test(path);
      if (isMissing) response.writeHead(404).end(error);
      return isMissing;
    });
    const { of, statuses } = await diagnose(configFile(service));
    for (const list of ['dlq', 'flow control'])
      expect(of(list)).toEqual([expect.stringMatching(/ → check baseUrl and paths, or disable the collector$/)]);
    expect(statuses.events).toBe('ok');
  },
);

it.each([
  [404, '', 'skip a workflow runs: the service has no such list'],
  [404, 'wrong region', expect.stringMatching(/^fail a workflow runs: .*status 404: wrong region → the token belongs/)],
  [500, '', expect.stringMatching(/^fail a workflow runs: .*status 500/)],
])('doctor reports an optional list with status %d and the text %j', async (status, error, line) => {
  const service = await answers((path, response) => {
    if (path === '/v2/workflows/logs') json(response, { error }, status);
    return path === '/v2/workflows/logs';
  });
  expect((await diagnose(configFile(service))).of('workflow runs')).toEqual([line]);
});

it('doctor continues after a failed list, and reports unreadable rows', async () => {
  const service = await answers((path, response) => {
    if (path === '/v2/dlq') json(response, {}, 403);
    else if (path === '/v2/events') json(response, {}, 404);
    else if (path === '/v2/logs') {
      const event = { messageId: 'm', state: 'ACTIVE', time: Date.now() };
      json(response, { events: [event, { ...event, responseStatus: '' }, 'x'] });
    } else return false;
    return true;
  });
  const { of, statuses } = await diagnose(configFile(service));
  expect(of('dlq')).toEqual([
    'fail a dlq: GET /v2/dlq: status 403 → give the token permission to read this, or disable the collector',
  ]);
  expect(of('events')).toEqual([
    'warn a events: 2 events of the last day, 1 unreadable rows, 1 rows with unreadable values → see docs/runbooks/DeliveryDataIncomplete.md',
  ]);
  expect(statuses).toMatchObject({ token: 'ok', 'flow control': 'ok', 'flow control key': 'skip' });
});

it('doctor uses the action token only for one read, and only if a rule may act', async () => {
  const service = await answers();
  const rule = {
    name: 'r',
    mode: 'enforce',
    expires: '2999-01-01',
    match: { label: { in: ['x'] } },
    evidence: 'reported',
    stuckWhen: { inProgressFor: '48h' },
  };
  const autoCancel = { mode: 'enforce', rules: [rule] };
  const env = { DELIVERY_TOKEN: TOKEN, ACTION: 'bad' };
  const withAction = (mode: string) =>
    configFile(service, { autoCancel: { ...autoCancel, mode } }, { actionToken: { env: 'ACTION' } });
  expect((await diagnose(withAction('plan'), { env })).of('action token')).toEqual([
    'skip a action token: no rule may act, so the token is not loaded',
  ]);
  const acting = withAction('enforce');
  expect((await diagnose(acting, { env })).of('action token')).toEqual([
    'fail a action token: the service rejects the token in the environment variable ACTION → replace the token: docs/access.md#tokens',
  ]);
  expect((await diagnose(acting, { env: { ...env, ACTION: TOKEN } })).of('action token')).toEqual([
    'ok a action token: the service accepts the token in the environment variable ACTION; only a cancel shows its permissions',
  ]);
  expect(service.requests.filter(request => !request.startsWith('GET'))).toEqual([]);
});

it('doctor reports connection errors and continues with checks that do not depend on them', async () => {
  const service = await answers();
  const label = 'x'.repeat(64);
  const accounts = [
    { name: 'lost', baseUrl: `http://${label}.invalid`, token: { env: 'DELIVERY_TOKEN' } },
    { name: 'shut', baseUrl: NOWHERE, token: { env: 'DELIVERY_TOKEN' } },
    { name: 'well', baseUrl: service.url, token: { env: 'DELIVERY_TOKEN' } },
  ];
  const { of } = await diagnose(configFile(service, { accounts }));
  expect(of('dns')[0]).toMatch(/^fail lost dns: x{64}\.invalid: (ENOTFOUND|EAI_AGAIN) → check the host name/);
  expect(of('connection')).toEqual([
    'skip lost connection: needs dns',
    `fail shut connection: ${NOWHERE}: ECONNREFUSED → nothing listens there: check the address, its port and the firewall`,
    `ok well connection: ${service.url}`,
  ]);
  expect(of('token').map(line => line.split(':')[0])).toEqual(['skip lost token', 'skip shut token', 'ok well token']);
  expect(of('schedules').slice(0, 2)).toEqual([
    'skip lost schedules: needs dns',
    'skip shut schedules: needs connection',
  ]);
});

it('doctor finishes despite unresponsive services, endless responses and long Retry-After times', async () => {
  const flood = Buffer.alloc(65_536, ' ');
  const pour = (response: ServerResponse) => {
    const more = () => {
      while (response.write(flood));
      response.once('drain', more);
    };
    more();
  };
  const silent = await serve();
  const endless = await serve((_request, response) => pour(response));
  const busy = await answers((path, response) => {
    if (path === '/') return false;
    response.writeHead(429, { 'retry-after': '20' }).end();
    return true;
  });
  const account = (name: string, { url }: Service) => ({ name, baseUrl: url, token: { env: 'DELIVERY_TOKEN' } });
  const accounts = [account('silent', silent), account('endless', endless), account('busy', busy)];
  const collect = { events: { enabled: false }, flowControl: { enabled: false } };
  const { of } = await diagnose(configFile(silent, { accounts, collect }), { timeout: atThisLoad(500) });
  expect(of('clock').map(line => line.replace(/ within .*/, ''))).toEqual([
    'fail silent clock: no response',
    "ok endless clock: agrees with the service's",
    "ok busy clock: agrees with the service's",
  ]);
  expect(of('dlq').map(line => line.replace(/ within .*/, ''))).toEqual([
    expect.stringMatching(/^fail silent dlq: GET \/v2\/dlq: no response in time → check the network path/),
    expect.stringMatching(/^fail endless dlq: /),
    expect.stringMatching(/^fail busy dlq: GET \/v2\/dlq: status 429 → lower budget.requestsPerSecond/),
  ]);
  expect(of('token').map(line => line.split(':')[0])).toEqual([
    'skip silent token',
    'skip endless token',
    'skip busy token',
  ]);
});

it('doctor reports how far the local clock is behind or ahead of the service’s clock', async () => {
  const service = await answers();
  const clock = (ms: number) => ({ ...systemClock, now: () => Date.now() + ms });
  const file = configFile(service);
  const [late] = (await diagnose(file, { clock: clock(-90_000) })).of('clock');
  expect(late).toMatch(/^fail a clock: (8[89]|90)\.\d s behind the service's → synchronize/);
  const [early] = (await diagnose(file, { clock: clock(20_000) })).of('clock');
  expect(early).toMatch(/^(warn|fail) a clock: \d+\.\d s ahead of the service's → /);
});
