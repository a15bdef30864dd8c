import { appendFileSync, chmodSync, readdirSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { hashSync } from 'bcryptjs';
import { expect, it } from 'vitest';
import { startAgent } from '../../src/app/agent.ts';
import { type DoctorDeps, examine } from '../../src/app/doctor/doctor.ts';
import { loadConfig } from '../../src/config/load.ts';
import { systemClock } from '../../src/kit/clock.ts';
import { afterThisTest } from '../support/client.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { atThisLoad } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';
import { json, serve } from '../support/http-service.ts';

const TOKEN = 'doctor-token';
/** An address at which nothing listens. */
const NOWHERE = 'http://127.0.0.1:1';

interface Service {
  readonly url: string;
}

/** A configuration file in a folder of its own, with its store. */
function configFile({ url }: Service, more: object = {}, account: object = {}): string {
  const folder = newFolder();
  const file = join(folder, 'config.yaml');
  const config = {
    server: { listen: '127.0.0.1:0' },
    log: { level: 'silent' },
    store: { path: join(folder, 'store.db') },
    accounts: [{ name: 'a', baseUrl: url, token: { env: 'DELIVERY_TOKEN' }, ...account }],
    ...more,
  };
  writeFileSync(file, JSON.stringify(config), { mode: 0o600 });
  return file;
}

/** What is found, one line a check: `status check: detail → todo`. */
async function diagnose(file: string, deps: Partial<DoctorDeps> = {}) {
  const { lines, isConfigValid } = await examine(file, {
    env: { DELIVERY_TOKEN: TOKEN },
    clock: systemClock,
    random: () => 0,
    signal: new AbortController().signal,
    timeout: atThisLoad(10_000),
    ...deps,
  });
  const all = lines.map(
    ({ status, account, check, detail, todo }) =>
      `${status} ${account === undefined ? '' : `${account} `}${check}: ${detail}${todo ? ` → ${todo}` : ''}`,
  );
  return {
    isConfigValid,
    all,
    statuses: Object.fromEntries(lines.map(({ status, check }) => [check, status])),
    /** The lines of one check. */
    of: (check: string) => all.filter((_, index) => lines[index]?.check === check),
  };
}

it('compares the rows of each filter with its match, and names the parameter that the service ignores', async () => {
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
    'fail a filter by-queue: the service ignores the parameter queueName: 2 of 2 rows do not match → check the match of the filter: docs/dead-letters.md#filters',
    'warn a filter by-label: 2 entries; rows do not report every field of match → check the match of the filter: docs/dead-letters.md#filters',
    'fail a filter by-ip: GET /v2/dlq: status 400: unknown parameter callerIp → check the match of the filter: docs/dead-letters.md#filters',
  ]);
});

/** A service with one row in each list. */
const answers = (change: (path: string, response: ServerResponse) => boolean = () => false) =>
  serve((request, response) => {
    const path = new URL(request.url ?? '', NOWHERE).pathname;
    if (change(path, response)) return;
    if (path === '/') json(response, {}, 404);
    else if (request.headers.authorization !== `Bearer ${TOKEN}`) json(response, {}, 401);
    else if (path === '/v2/dlq')
      json(response, { messages: [{ dlqId: '1-0', messageId: 'm', url: 'https://x.test' }] });
    else if (path === '/v2/events') json(response, { events: [], cursor: null });
    else if (path === '/v2/flowControl') json(response, [{ flowControlKey: 'k', waitListSize: 1 }]);
    else if (path === '/v2/flowControl/k') json(response, { flowControlKey: 'k', waitListSize: 1 });
    else json(response, {}, 404);
  });

it('says ok, line by line, where all is well', async () => {
  const service = await answers();
  const { all, statuses, isConfigValid } = await diagnose(configFile(service));
  expect(isConfigValid).toBe(true);
  expect(statuses).toEqual({
    configuration: 'ok',
    permissions: 'ok',
    store: 'ok',
    disk: expect.stringMatching(/ok|warn/),
    'stop file': 'skip',
    port: 'ok',
    dns: 'ok',
    connection: 'ok',
    clock: 'ok',
    token: 'ok',
    dlq: 'ok',
    events: 'ok',
    'flow control': 'ok',
    'flow control key': 'ok',
  });
  expect(all.slice(-7)).toEqual([
    `ok a connection: ${service.url}`,
    "ok a clock: agrees with the service's",
    'ok a token: the service accepts the one in the environment variable DELIVERY_TOKEN',
    'ok a dlq: 1 entries',
    'ok a events: /v2/events: 0 events of the last day',
    'ok a flow control: 1 keys',
    'ok a flow control key: /v2/flowControl/{flowControlKey}',
  ]);
  // It reads each list once, asks for the time without the token, and does nothing else.
  expect(service.requests.map(request => request.replace(/\?.*/, ''))).toEqual([
    'GET /',
    'GET /v2/dlq',
    'GET /v2/events',
    'GET /v2/flowControl',
    'GET /v2/flowControl/k',
  ]);
  expect(service.headers[0]?.authorization).toBe(undefined);
});

it('leaves no file behind', async () => {
  const file = configFile(await answers());
  await diagnose(file);
  expect(readdirSync(join(file, '..'))).toEqual(['config.yaml']);
});

it('tells a refused token once, and does not blame the lists for it', async () => {
  const service = await answers();
  const { all, of } = await diagnose(configFile(service), { env: { DELIVERY_TOKEN: 'another' } });
  expect(of('token')).toEqual([
    'fail a token: the service rejects the one in the environment variable DELIVERY_TOKEN → replace the token: docs/tokens.md',
  ]);
  expect(all.slice(-4)).toEqual([
    'skip a dlq: needs token',
    'skip a events: needs token',
    'skip a flow control: needs token',
    'skip a flow control key: needs token',
  ]);
});

it('shows why the service refuses a token or a read, without secrets', async () => {
  const refusing = (status: number, error: string) =>
    answers((path, response) => {
      if (!path.startsWith('/v2/')) return false;
      json(response, { error }, status);
      return true;
    });
  const refused = await diagnose(configFile(await refusing(401, 'token\u001b[31m expired\n')));
  expect(refused.of('token')).toEqual([
    'fail a token: the service rejects the one in the environment variable DELIVERY_TOKEN: token expired → replace the token: docs/tokens.md',
  ]);
  const forbidden = await diagnose(configFile(await refusing(403, 'test-token may not read; see ?key=1')), {
    env: { DELIVERY_TOKEN: 'test-token' },
  });
  expect(forbidden.of('dlq')).toEqual([
    'fail a dlq: GET /v2/dlq: status 403: <secret> may not read; see ?key=<secret> → give the token permission to read this, or disable the collector',
  ]);
});

it('goes on after a list that fails, and says which path answers and what is unreadable', async () => {
  const service = await answers((path, response) => {
    if (path === '/v2/dlq') json(response, {}, 403);
    else if (path === '/v2/events') json(response, {}, 404);
    else if (path === '/v2/logs') json(response, { events: [{ messageId: 'm', state: 'ACTIVE', time: 1 }, 'x'] });
    else return false;
    return true;
  });
  const { of, statuses } = await diagnose(configFile(service));
  expect(of('dlq')).toEqual([
    'fail a dlq: GET /v2/dlq: status 403 → give the token permission to read this, or disable the collector',
  ]);
  expect(of('events')).toEqual([
    'warn a events: /v2/logs: 1 events of the last day, 1 unreadable rows → look up docs/runbooks/DeliveryRowsRejected.md',
  ]);
  expect(statuses).toMatchObject({ token: 'ok', 'flow control': 'ok', 'flow control key': 'ok' });
});

it('reads with the token for acting where a rule may act, and sends nothing else with it', async () => {
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
    'skip a action token: no rule may act: it is not loaded',
  ]);
  const acting = withAction('enforce');
  expect((await diagnose(acting, { env })).of('action token')).toEqual([
    'fail a action token: the service rejects the one in the environment variable ACTION → replace the token: docs/tokens.md',
  ]);
  expect((await diagnose(acting, { env: { ...env, ACTION: TOKEN } })).of('action token')).toEqual([
    'ok a action token: the service accepts the one in the environment variable ACTION; only a cancel shows what it may',
  ]);
  expect(service.requests.filter(request => !request.startsWith('GET'))).toEqual([]);
});

it('says what is wrong with the way there, and goes on with what does not need it', async () => {
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
});

it('ends, whatever a service does: silence, endless answers, a wait that is too long', async () => {
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
  const { of } = await diagnose(configFile(silent, { accounts, collect }), { timeout: atThisLoad(200) });
  expect(of('clock').map(line => line.replace(/ within .*/, ''))).toEqual([
    'fail silent clock: no answer',
    "ok endless clock: agrees with the service's",
    "ok busy clock: agrees with the service's",
  ]);
  expect(of('dlq').map(line => line.replace(/ within .*/, ''))).toEqual([
    'fail silent dlq: no answer',
    expect.stringMatching(/^fail endless dlq: /),
    expect.stringMatching(/^fail busy dlq: rate_limited, for as long as it was tried → /),
  ]);
  expect(of('token').map(line => line.split(':')[0])).toEqual([
    'skip silent token',
    'skip endless token',
    'skip busy token',
  ]);
});

it('compares the clocks', async () => {
  const service = await answers();
  const clock = (ms: number) => ({ ...systemClock, now: () => Date.now() + ms });
  const file = configFile(service);
  const [late] = (await diagnose(file, { clock: clock(-90_000) })).of('clock');
  expect(late).toMatch(/^fail a clock: (8[89]|90)\.\d s from the service's → synchronise/);
  const [early] = (await diagnose(file, { clock: clock(20_000) })).of('clock');
  expect(early).toMatch(/^(warn|fail) a clock: \d+\.\d s from the service's → /);
});

it('reports every fault of a configuration, and looks at the store all the same', async () => {
  const service = await answers();
  const file = configFile(service, { servr: {}, collect: { dlq: { every: 'soon' } } });
  const { isConfigValid, of, statuses } = await diagnose(file);
  expect(isConfigValid).toBe(false);
  expect(of('configuration').filter(line => line.startsWith('fail'))).toHaveLength(2);
  expect(statuses).toMatchObject({ store: 'ok', permissions: 'skip', port: 'skip', accounts: 'skip' });
  expect(service.requests).toEqual([]);
});

it('finds files with secrets that other users may read', async () => {
  const service = await answers();
  const tokenFile = join(newFolder(), 'token');
  writeFileSync(tokenFile, TOKEN);
  const written = configFile(service, {}, { token: TOKEN });
  const apart = configFile(service, {}, { token: { file: tokenFile } });
  for (const file of [tokenFile, written, apart]) chmodSync(file, 0o644);
  expect((await diagnose(written)).of('permissions')).toEqual([
    `warn permissions: ${written} holds secrets, and other users may read it → chmod 600 ${written}`,
  ]);
  expect((await diagnose(apart)).of('permissions')).toEqual([
    `warn permissions: ${tokenFile} can be read or written by every user → chmod 600 ${tokenFile}`,
  ]);
  chmodSync(written, 0o600);
  chmodSync(tokenFile, 0o640);
  for (const file of [written, apart]) {
    expect((await diagnose(file)).of('permissions')).toEqual([
      'ok permissions: only owner and group may read the files with secrets',
    ]);
  }
});

it.each([
  ['a webhook URL without a credential', { url: 'http://127.0.0.1:1/hook' }, false],
  ['a Slack URL', { url: 'http://127.0.0.1:1/hook', format: 'slack' }, true],
  ['a webhook secret', { url: 'http://127.0.0.1:1/hook', secret: 'canary' }, true],
])('doctor and check-config agree whether %s is a secret in the file', async (_what, webhook, isSecret) => {
  const file = configFile(await answers(), { alerts: { notifiers: [{ name: 'hook', webhook }] } });
  chmodSync(file, 0o644);
  const { of } = await diagnose(file);
  const { warnings } = loadConfig(file, { DELIVERY_TOKEN: TOKEN });
  expect(warnings.some(({ message }) => message.includes('is written in this file'))).toBe(isSecret);
  expect(of('permissions')).toEqual([
    isSecret
      ? `warn permissions: ${file} holds secrets, and other users may read it → chmod 600 ${file}`
      : 'ok permissions: no file holds a secret',
  ]);
});

it.each([
  ['upstream', { upstream: { proxy: 'http://user:canary@127.0.0.1:1' } }],
  ['push', { push: { metrics: { headers: { authorization: 'Bearer canary' } } } }],
])(
  'doctor warns of a configuration that others may read when a secret is written in the section %s',
  async (_section, more) => {
    const file = configFile(await answers(), more);
    chmodSync(file, 0o644);
    expect((await diagnose(file)).of('permissions')).toEqual([
      `warn permissions: ${file} holds secrets, and other users may read it → chmod 600 ${file}`,
    ]);
  },
);

it('finds a file with users of the port that others may read', async () => {
  const web = join(newFolder(), 'web.yaml');
  const file = configFile(await answers(), { server: { listen: '127.0.0.1:0', webConfigFile: web } });
  writeFileSync(web, JSON.stringify({ basic_auth_users: { alice: hashSync('secret', 4) } }));
  chmodSync(web, 0o644);
  expect((await diagnose(file)).of('permissions')).toEqual([
    `warn permissions: ${web} can be read or written by every user → chmod 600 ${web}`,
  ]);
  writeFileSync(web, JSON.stringify({ http_server_config: { headers: { 'X-Frame-Options': 'deny' } } }));
  expect((await diagnose(file)).of('permissions')).toEqual(['ok permissions: no file holds a secret']);
});

it('tells of a store that can not be used, what to do', async () => {
  const service = await answers();
  const file = configFile(service);
  writeFileSync(join(file, '..', 'store.db'), 'no database'.repeat(100), { mode: 0o600 });
  const [line] = (await diagnose(file)).of('store');
  expect(line).toMatch(/^fail store: .*store\.db is damaged or not a database .* → it was left as it is; put a copy/);
});

it('tells of a port that another program has', async () => {
  const taken = createServer(socket => socket.end('220 not HTTP\r\n', () => socket.destroy()));
  await new Promise<void>(resolve => taken.listen(0, '127.0.0.1', resolve));
  afterThisTest(() => new Promise(resolve => taken.close(() => resolve())));
  const address = taken.address();
  const port = typeof address === 'object' ? address?.port : 0;
  const { of } = await diagnose(configFile(await answers(), { server: { listen: `127.0.0.1:${port}` } }));
  expect(of('port')).toEqual([
    `fail port: 127.0.0.1:${port} is in use by another program → stop that program, or change the port here`,
  ]);
});

it('knows the agent of this configuration by its port, and leaves it alone', async () => {
  const emulator = await emulateEmpty();
  const env = { DELIVERY_TOKEN: emulator.token };
  // A port that is free, for a moment at least: it has to stand in the file.
  const free = createServer();
  await new Promise<void>(resolve => free.listen(0, '127.0.0.1', resolve));
  const address = free.address();
  const listen = `127.0.0.1:${typeof address === 'object' ? address?.port : 0}`;
  await new Promise(resolve => free.close(resolve));
  const file = configFile(emulator, { server: { listen, allowedHosts: ['dw.example.com'] } });
  const agent = await startAgent(loadConfig(file, env), { env, clock: systemClock, random: Math.random });
  afterThisTest(() => agent.close());
  const { of } = await diagnose(file, { env });
  expect(of('port')).toEqual([`ok port: ${listen} is in use by an agent with this configuration`]);
  expect(of('store')).toEqual([expect.stringMatching(/^ok store: .*store\.db, schema 2, \d+ MiB/)]);
  // Only Linux says which process holds a lock.
  if (process.platform === 'linux') expect(of('store')[0]).toContain(`process ${process.pid} holds it`);
  appendFileSync(file, '\n');
  expect((await diagnose(file, { env })).of('port')).toEqual([
    `warn port: ${listen} is in use by an agent with another configuration → restart it, or change the port here`,
  ]);
});

it('reaches receivers as far as their connection, and sends them nothing', async () => {
  const hook = await serve();
  const env = { DELIVERY_TOKEN: TOKEN, BEAT: `${hook.url}/canary-7f3a`, NOTHING: 'http://127.0.0.1:1/canary-7f3a' };
  const file = configFile(await answers(), {
    alerts: {
      notifiers: [
        { name: 'ops', alertmanager: { urls: [hook.url] } },
        { name: 'chat', webhook: { url: { env: 'NOTHING' }, format: 'slack' } },
      ],
    },
    heartbeat: { url: { env: 'BEAT' } },
    tracing: { enabled: true, endpoint: hook.url },
    push: { metrics: { enabled: true, endpoint: 'http://127.0.0.1:1', headers: { 'api-key': { env: 'BEAT' } } } },
  });
  const { all } = await diagnose(file, { env });
  expect(all.slice(-5)).toEqual([
    `ok notifier ops: ${hook.url}`,
    `fail notifier chat: ${NOWHERE}: ECONNREFUSED → nothing listens there: check the address, its port and the firewall`,
    `ok heartbeat: ${hook.url}`,
    `ok tracing: ${hook.url}`,
    `fail push.metrics: ${NOWHERE}: ECONNREFUSED → nothing listens there: check the address, its port and the firewall`,
  ]);
  expect(hook.requests).toEqual([]);
  const refused = await diagnose(file, { env: { ...env, OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: 'grpc' } });
  expect(refused.all).toContain(
    'fail environment: OTEL_EXPORTER_OTLP_PROTOCOL is grpc; metrics are sent by http/protobuf alone → an agent would not start: change the variable',
  );
  expect(refused.all.at(-1)).toBe('skip push.metrics: needs environment');
  const moved = await diagnose(file, { env: { ...env, OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: `${hook.url}/in` } });
  expect(moved.all.at(-1)).toBe(`ok push.metrics: ${hook.url}`);
  expect(moved.all.filter(line => line.startsWith('warn configuration'))).toEqual([
    expect.stringContaining(
      'push.metrics.headers: are not sent: OTEL_EXPORTER_OTLP_METRICS_ENDPOINT names another address',
    ),
  ]);
});

it('shows no secret, whatever the service says', async () => {
  const CANARY = 'canary-7f3a';
  const row = { dlqId: '1-0', messageId: 'm', flowControlKey: 'k', waitListSize: 1, body: CANARY, error: CANARY };
  const rounds: ((response: ServerResponse) => void)[] = [
    response => json(response, { messages: [row, CANARY], events: [CANARY], flowControls: [row, CANARY] }),
    response => void response.writeHead(302, { location: `http://${CANARY}.test/`, date: CANARY }).end(),
    response => void response.writeHead(403, { 'x-secret': CANARY }).end(CANARY),
    response => void response.writeHead(200, { 'content-encoding': CANARY }).end(CANARY),
    response => void response.socket?.end(`${CANARY} not http\r\n\r\n`),
  ];
  const tokenFile = join(newFolder(), 'token');
  writeFileSync(tokenFile, CANARY);
  const env = { DELIVERY_TOKEN: CANARY, PROXY: `http://user:${CANARY}@127.0.0.1:1` };
  for (const answer of rounds) {
    const service = await serve((_request, response) => answer(response));
    const accounts = [
      { name: 'a', baseUrl: service.url, token: CANARY },
      { name: 'b', baseUrl: service.url.replace('127.0.0.1', 'localhost'), token: { file: tokenFile } },
      { name: 'c', baseUrl: NOWHERE, token: { env: 'DELIVERY_TOKEN' }, upstream: { proxy: { env: 'PROXY' } } },
    ];
    const { all } = await diagnose(configFile(service, { accounts }), { env });
    expect(all.join('\n')).not.toContain(CANARY);
    expect(all.join('\n')).toContain('by way of the proxy 127.0.0.1:1');
  }
});
