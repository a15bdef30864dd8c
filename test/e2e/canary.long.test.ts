import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { API_ENDPOINTS } from '../../src/status/endpoints.ts';
import { createAgent } from '../support/agent.ts';
import { runCli, startCli } from '../support/cli.ts';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';
import { serve } from '../support/http-service.ts';
import { startOtlpReceiver } from '../support/otlp-receiver.ts';
import { runOnTerminal } from './rotation.ts';

/** Text planted wherever a secret, a header value or a body can occur. */
const CANARY = 'canary-7f3a';

const row = {
  messageId: 'm1',
  dlqId: '1-0',
  flowControlKey: 'k',
  waitListSize: 1,
  state: 'delivered',
  time: '1',
  url: `https://user:${CANARY}@destination.example.com/?key=${CANARY}#${CANARY}`,
  workflowRunId: 'wfr_1',
  workflowUrl: `https://user:${CANARY}@workflow.example.com/run?key=${CANARY}#${CANARY}`,
  header: { Authorization: [CANARY] },
  body: CANARY,
  responseBody: CANARY,
  responseHeader: { 'set-cookie': CANARY },
  error: CANARY,
};
const page = JSON.stringify({ messages: [row, CANARY], events: [row, { time: CANARY }], flowControls: [row, CANARY] });

const users = JSON.stringify([
  {
    id: 'user-1',
    token: CANARY,
    read_only_token: CANARY,
    password: CANARY,
    customer_id: CANARY,
    created_by: CANARY,
    state: 'active',
    type: 'free',
    max_queues: 3,
  },
]);
const statistics = JSON.stringify({ dlq_message_count: 7, daily_requests: [], token: CANARY, [CANARY]: CANARY });

/** Responses that the service cycles through. */
const ANSWERS: readonly ((response: ServerResponse) => void)[] = [
  response => response.end(page),
  response => response.end(`<html>${CANARY}</html>`),
  response => response.end(page.slice(0, -20)),
  response => response.end(`{"messages": "${CANARY}", "events": "${CANARY}", "flowControls": "${CANARY}"}`),
  response => response.writeHead(400).end(JSON.stringify({ error: CANARY })),
  response => response.writeHead(403, { 'x-secret': CANARY }).end(CANARY),
  response => response.writeHead(302, { location: `http://${CANARY}.example.com/?token=${CANARY}` }).end(),
  response => response.writeHead(200, { 'content-encoding': CANARY }).end(page),
  response => response.writeHead(200, { 'content-encoding': 'gzip' }).end(CANARY),
  response => void response.socket?.write(`${CANARY} not http\r\n\r\n`, () => response.socket?.destroy()),
];

it('no output of the agent contains a secret', async () => {
  let calls = 0;
  let accountCalls = 0;
  const service = await serve((request, response) => {
    if (request.url?.startsWith('/v2/qstash/')) {
      accountCalls += 1;
      // Every second read of the account succeeds.
      if (accountCalls % 4 < 2) response.end(request.url.includes('/stats/') ? statistics : users);
      else ANSWERS[Math.floor(accountCalls / 4) % ANSWERS.length]?.(response);
      return;
    }
    calls += 1;
    ANSWERS[Math.floor(calls / 6) % ANSWERS.length]?.(response);
  });
  const tokenFile = join(newFolder(), 'token');
  writeFileSync(tokenFile, CANARY);
  const budget = { requestsPerSecond: 1000, burst: 1000 };
  const collect = {
    flowControl: { every: '20ms' },
    dlq: { every: '20ms', breakdowns: ['urlHost', 'route', 'workflowUrl'] },
    events: { every: '20ms', destination: 'workflowUrl' },
    account: { every: '20ms' },
    routes: ['/:any'],
  };
  const accounts = [
    { name: 'in-place', baseUrl: service.url, token: CANARY, budget },
    {
      name: 'from-env',
      baseUrl: service.url,
      token: { env: 'SECRET' },
      budget,
      management: { baseUrl: service.url, username: 'owner', password: { env: 'SECRET' } },
      paths: { account: '/v2/qstash/users' },
    },
    { name: 'from-file', baseUrl: service.url, token: { file: tokenFile }, budget },
  ];
  // Receiver URLs are credentials, and the receivers repeat them in their responses.
  const receivers = await serve((request, response) => void response.writeHead(500).end(`${CANARY} ${request.url}`));
  const hook = (name: string, path: string, format: string) => ({
    name,
    webhook: { url: `${receivers.url}/${path}`, secret: { env: 'SECRET' }, format, groupWait: '0s' },
  });
  const alerts = {
    enabled: true,
    evaluateEvery: '100ms',
    rules: [{ name: 'Down', when: { below: { metric: 'delivery_up', value: 1 } } }],
    notifiers: [
      hook('hook', CANARY, 'alertmanager'),
      hook('chat', `services/${CANARY}`, 'slack'),
      hook('pd', 'v2/enqueue', 'pagerduty'),
      { name: 'nowhere', webhook: { url: { env: 'DEAD_URL' }, format: 'slack', groupWait: '0s' } },
    ],
  };
  const heartbeat = { url: { env: 'HEARTBEAT_URL' }, every: '100ms' };
  const secrets = {
    SECRET: CANARY,
    DEAD_URL: `http://127.0.0.1:1/${CANARY}`,
    HEARTBEAT_URL: `${receivers.url}/beat/${CANARY}`,
  };
  const autoCancel = { mode: 'plan', rules: [{ name: 'r', match: { workflowUrl: { prefix: ['http'] } } }] };
  const more = {
    upstream: { noProxy: ['*'], proxy: `http://user:${CANARY}@127.0.0.1:1` },
    tracing: {
      enabled: true,
      sampleRatio: 1,
      endpoint: receivers.url,
      headers: { 'x-key': CANARY, 'y-key': { env: 'SECRET' } },
    },
  };
  const settings = {
    log: { level: 'debug', deadLetters: true },
    accounts,
    collect,
    alerts,
    heartbeat,
    autoCancel,
    ...more,
  };
  const agent = createAgent(settings, { ...secrets, OTEL_BSP_SCHEDULE_DELAY: '100' });
  const { folder, configFile: file } = agent;
  const url = await agent.start();
  const paths = [
    '/',
    '/accounts/from-env',
    '/auto-cancel',
    '/metrics',
    '/metrics/agent',
    '/probe?account=from-env',
    '/api/v1/sd',
    ...API_ENDPOINTS.flatMap(({ path }) => {
      const filled = path.replace('{name}', 'from-env').replace('{id}', 'm1');
      return [filled, `${filled}?account=from-env`, `${filled}?family=delivery_dlq_messages_by_url_host`];
    }),
    '/nowhere',
  ];
  const seen = new Set<string>();
  let hasUsage = false;
  await eventually(async () => {
    for (const path of paths) {
      const response = await fetch(url + path, { headers: { authorization: `Bearer request-secret` } });
      const headers = JSON.stringify([...response.headers]);
      const text = headers + (await response.text());
      expect(text).not.toContain(CANARY);
      if (text.includes('delivery_account_dlq_messages{account="from-env"} 7')) hasUsage = true;
      for (const [reason] of text.matchAll(/invalid_response|refused|forbidden|network/g)) seen.add(reason);
    }
    expect(hasUsage).toBe(true);
    expect(accountCalls).toBeGreaterThan(ANSWERS.length * 6);
    expect(calls).toBeGreaterThan(ANSWERS.length * 18);
    // Every receiver got a request and failed.
    const requested = new Set(receivers.requests.map(each => each.replace(CANARY, '')));
    expect([...requested].sort()).toEqual([
      'GET /beat//fail',
      'POST /',
      'POST /services/',
      'POST /v1/traces',
      'POST /v2/enqueue',
    ]);
  });
  for (const name of readdirSync(folder).filter(name => name.startsWith('store.db'))) {
    expect(readFileSync(join(folder, name)).includes(CANARY), name).toBe(false);
  }
  expect(await agent.end('SIGTERM')).toBe(0);
  // Every kind of error occurred and was reported.
  expect([...seen].sort()).toEqual(['forbidden', 'invalid_response', 'network', 'refused']);
  expect(agent.process.stderr()).toContain('collection failed');
  expect(agent.process.stderr() + agent.process.stdout()).not.toContain(CANARY);

  // The first requests get rows, and later ones get errors.
  calls = 0;
  for (const command of [
    ['list', 'dlq', '--wide', '--config', file],
    ['message', 'm1', '--config', file],
    ['list', 'events', '--all', '--json', '--config', file],
    ['list', 'keys', '--json', '--config', file],
    ['check-config', file],
    ['snapshot', '--config', file],
    ['snapshot', '--json', '--config', file],
  ]) {
    const { stdout, stderr } = await runCli(command, secrets);
    expect(stdout + stderr).not.toContain(CANARY);
  }
  writeFileSync(file, `accounts:\n  - name: a\n    token: ${CANARY}\n   bad: ${CANARY}\n`);
  const broken = await runCli(['serve', '--config', file]);
  expect(broken.code).toBe(2);
  expect(broken.stdout + broken.stderr).not.toContain(CANARY);
});

it('error texts of the service reach the log, page, API and doctor without secrets or control characters', async () => {
  const secrets = {
    TOKEN: 'tk_8fQz-77Lm_pW2x',
    ACTION: 'act-Wv3;KqX9z',
    PASSWORD: 'h/+=%&"unter2x',
    HOOK: 'whsec_Zz91kdLQ',
    URL: 'https://hooks.example.com/services/T0AB12/B0CD34/zYxWvUtSrQ',
    LITERAL: 'literal-Pq7wE',
    FILE: 'file.Uu3~Rr8Tt',
  };
  const unknown = ['eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln', 'AbCdEf0123456789GhIjKl'];
  const forms = [...Object.values(secrets), ...unknown].flatMap(secret => [
    `explained <b>${secret}</b>`,
    `explained <b>${'x '.repeat(90)}${secret}${' y'.repeat(90)}`,
    ...(unknown.includes(secret)
      ? []
      : [
          `explained <b>${secret.slice(0, 7)} ${secret.slice(7)}`,
          `explained <b>${encodeURIComponent(secret)}`,
          `explained <b>${JSON.stringify(JSON.stringify(secret))}`,
          `explained <b>${Buffer.from(`user:${secret}`).toString('base64')}`,
        ]),
    `explained <b>https://user:${encodeURIComponent(secret)}@h/?token=${encodeURIComponent(secret)}`,
    `explained <b>\u001b[31m${secret}\u001b[0m\u202e\u0007\r\n\u2028`,
  ]);
  let calls = 0;
  const service = await serve((_request, response) => {
    const error = forms[Math.floor(calls / 3) % forms.length];
    response.writeHead([400, 403, 404, 503][calls % 4] ?? 400).end(JSON.stringify({ error }));
    calls += 1;
  });
  const receiver = await startOtlpReceiver();
  afterThisTest(() => receiver.close());
  const tokenFile = join(newFolder(), 'password');
  writeFileSync(tokenFile, secrets.FILE);
  const agent = createAgent(
    {
      log: { level: 'debug' },
      accounts: [
        {
          name: 'a',
          baseUrl: service.url,
          token: { env: 'TOKEN' },
          actionToken: { env: 'ACTION' },
          management: { baseUrl: service.url, username: 'user', password: { env: 'PASSWORD' } },
          budget: { requestsPerSecond: 1000, burst: 1000 },
        },
      ],
      collect: { flowControl: { every: '20ms' }, dlq: { every: '20ms' }, events: { every: '20ms' } },
      alerts: {
        notifiers: [
          { name: 'hook', webhook: { url: { env: 'URL' }, secret: { env: 'HOOK' } } },
          { name: 'other', webhook: { url: service.url, secret: { file: tokenFile } } },
        ],
      },
      tracing: { enabled: true, sampleRatio: 1, endpoint: receiver.url, headers: { 'x-key': secrets.LITERAL } },
      autoCancel: { mode: 'plan', rules: [{ name: 'r', match: { workflowUrl: { prefix: ['http'] } } }] },
    },
    { ...secrets, OTEL_BSP_SCHEDULE_DELAY: '100' },
  );
  const secretsIn = (text: string) => [
    ...Object.values(secrets).filter(secret => {
      const isAddress = secret === secrets.URL;
      const ends = [secret, encodeURIComponent(secret), JSON.stringify(secret).slice(1, -1)].flatMap(form => [
        form.slice(-8),
        ...(isAddress ? [] : [form.slice(0, 8)]),
      ]);
      return ends.some(end => text.includes(end));
    }),
    ...unknown.filter(secret => text.includes(secret.slice(0, 8))),
  ];
  const leaksOf = (text: string) => [
    ...secretsIn(text),
    ...(text.match(/[\x07\x1b\u202e\u2028]|\\u(?:001b|202e|2028|0007)/gi) ?? []),
  ];
  const url = await agent.start();
  const explaining = ['/', '/accounts/a', '/api/v1/status', '/api/v1/overview', '/api/v1/accounts/a'];
  const others = ['/metrics', '/metrics/agent', '/probe?account=a', '/auto-cancel', '/api/v1/status'];
  const explained = new Set<string>();
  await eventually(async () => {
    for (const path of [...explaining, ...others]) {
      const text = await (await fetch(url + path)).text();
      expect(leaksOf(text), path).toEqual([]);
      if (text.includes('explained')) explained.add(path);
      if (!path.startsWith('/api/') && text.includes('explained')) expect(text).toContain('explained &lt;b&gt;');
    }
    expect(calls).toBeGreaterThan(forms.length * 6);
    expect([...explained].sort()).toEqual([...explaining].sort());
    expect(receiver.spans.length).toBeGreaterThan(100);
  });
  for (const command of ['doctor', 'snapshot', 'plan']) {
    const { stdout, stderr } = await runCli([command, '--config', agent.configFile], secrets);
    expect(leaksOf(stdout + stderr), command).toEqual([]);
    expect(stdout + stderr, command).toContain('explained');
  }
  expect(await agent.end('SIGTERM')).toBe(0);
  expect(leaksOf(agent.process.stderr())).toEqual([]);
  expect(agent.process.stderr()).toMatch(/"error":"GET \/v2\/\w+: status 4\d\d: explained <b>/);
  const sent = receiver.raw().toString('latin1');
  expect(secretsIn(sent)).toEqual([]);
  expect(sent).not.toContain('explained');
  for (const name of readdirSync(agent.folder).filter(name => name.startsWith('store.db'))) {
    expect(secretsIn(readFileSync(join(agent.folder, name), 'latin1')), name).toEqual([]);
  }
});

it('rotate-token outputs no secret, regardless of the response', async () => {
  const folder = newFolder();
  const record = JSON.stringify({
    token: `${CANARY}-new`,
    password: `${CANARY}-new`,
    read_only_token: CANARY,
    type: 'free',
  });
  let calls = 0;
  const answers = [...ANSWERS, (response: ServerResponse) => response.end(record)];
  const service = await serve((request, response) => {
    if (request.method === 'POST') answers[calls++]?.(response);
    else response.writeHead(request.headers.authorization === `Bearer ${CANARY}-new` ? 200 : 401).end(page);
  });
  const [token, file] = [join(folder, 'token'), join(folder, 'config.yaml')];
  const management = { baseUrl: service.url, username: 'owner', password: { env: 'PASSWORD' } };
  const store = { path: join(folder, 'store.db') };
  const accounts = [{ name: 'a', baseUrl: service.url, token: { file: token }, management }];
  writeFileSync(file, JSON.stringify({ store, accounts }));
  const reset = async (args: readonly string[]) => {
    const command = startCli(['rotate-token', '--config', file, '--account', 'a', ...args], { PASSWORD: CANARY });
    const commandLine = readFileSync(`/proc/${command.pid}/cmdline`, 'utf8');
    const code = await command.ended;
    expect(command.stdout() + command.stderr() + commandLine).not.toContain(CANARY);
    return code;
  };
  for (const [index] of answers.entries()) {
    writeFileSync(token, CANARY);
    rmSync(join(folder, 'token.rotating.json'), { force: true });
    const isLast = index === answers.length - 1;
    expect(await reset(['--yes']), `answer ${index}`).toBe(isLast ? 0 : 1);
    expect(calls).toBe(index + 1);
    if (index === 0) expect(await reset(['--yes'])).toBe(1);
  }
  expect(await reset(['--check'])).toBe(0);
  // A response that cannot be stored appears only on the terminal.
  const crash = {
    NODE_OPTIONS: `--import=${new URL('../support/crash.ts', import.meta.url)}`,
    CRASH_FOLDER: folder,
    CRASH_FAIL: 'write token.rotated ENOSPC 2',
    PASSWORD: CANARY,
  };
  answers.push(response => response.end(record));
  const unstored = await runOnTerminal(file, 'a', crash);
  expect([unstored.code, calls]).toEqual([1, answers.length]);
  expect(unstored.terminal).toContain(`"token":"${CANARY}-new"`);
  expect(unstored.stdout).toContain('does not contain the response (ENOSPC)');
  expect(unstored.stdout + unstored.stderr).not.toContain(CANARY);
  // Files that other users can read contain no secrets, and files with credentials are readable only by their owner.
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    if (readFileSync(path).includes(CANARY) && path !== token)
      expect((statSync(path).mode & 0o77).toString(8), name).toBe('0');
  }
});
