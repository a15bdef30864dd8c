import { chmodSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { hashSync } from 'bcryptjs';
import { expect, it } from 'vitest';
import { startAgent } from '../../../src/agent/agent.ts';
import { loadConfig } from '../../../src/config/load.ts';
import { systemClock } from '../../../src/kit/clock.ts';
import { afterThisTest } from '../../support/client.ts';
import { answers, configFile, diagnose, NOWHERE, TOKEN } from '../../support/doctor.ts';
import { emulateEmpty } from '../../support/emulate.ts';
import { newFolder } from '../../support/folder.ts';
import { json, serve } from '../../support/http-service.ts';

it('doctor reports every configuration error and checks nothing else', async () => {
  const service = await answers();
  const file = configFile(service, { servr: {}, collect: { dlq: { every: 'soon' } } });
  const { isConfigValid, of, statuses } = await diagnose(file);
  expect(isConfigValid).toBe(false);
  expect(of('configuration').filter(line => line.startsWith('fail'))).toHaveLength(2);
  expect(of('configuration').join()).not.toContain('fix it');
  expect(Object.keys(statuses)).toEqual(['configuration']);
  expect(service.requests).toEqual([]);
});

it('doctor finds secret files that other users can read', async () => {
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
    `warn permissions: ${tokenFile} holds secrets, and other users may read it → chmod 600 ${tokenFile}`,
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
  ['a routing key', { url: 'http://127.0.0.1:1/hook', format: 'pagerduty', secret: 'canary' }, true],
  ['a webhook secret', { url: 'http://127.0.0.1:1/hook', secret: 'canary' }, true],
])('doctor and check-config agree on whether %s is a secret in the file', async (_what, webhook, isSecret) => {
  const file = configFile(await answers(), { alerts: { notifiers: [{ name: 'hook', webhook }] } });
  chmodSync(file, 0o644);
  const { of } = await diagnose(file);
  const { warnings } = loadConfig(file, { DELIVERY_TOKEN: TOKEN });
  expect(warnings.some(({ message }) => message.includes('is written in this file'))).toBe(isSecret);
  expect(of('permissions')).toEqual([
    isSecret
      ? `warn permissions: ${file} holds secrets, and other users may read it → chmod 600 ${file}`
      : 'ok permissions: the configuration and the files it names contain no secret',
  ]);
});

it.each([
  ['upstream', { upstream: { proxy: 'http://user:canary@127.0.0.1:1' } }],
  ['tracing', { tracing: { headers: { authorization: 'Bearer canary' } } }],
])('doctor warns that other users can read a configuration with a secret in the section %s', async (_section, more) => {
  const file = configFile(await answers(), more);
  chmodSync(file, 0o644);
  expect((await diagnose(file)).of('permissions')).toEqual([
    `warn permissions: ${file} holds secrets, and other users may read it → chmod 600 ${file}`,
  ]);
});

it('doctor finds a world-readable web-config file that contains users', async () => {
  const web = join(newFolder(), 'web.yaml');
  const file = configFile(await answers(), { server: { listen: '127.0.0.1:0', webConfigFile: web } });
  writeFileSync(web, JSON.stringify({ basic_auth_users: { alice: hashSync('secret', 4) } }));
  chmodSync(web, 0o644);
  expect((await diagnose(file)).of('permissions')).toEqual([
    `warn permissions: ${web} holds secrets, and other users may read it → chmod 600 ${web}`,
  ]);
  chmodSync(web, 0o600);
  expect((await diagnose(file)).of('permissions')).toEqual([
    'ok permissions: only owner and group may read the files with secrets',
  ]);
});

it('doctor reports a damaged store together with a remedy', async () => {
  const service = await answers();
  const file = configFile(service);
  writeFileSync(join(file, '..', 'store.db'), 'no database'.repeat(100), { mode: 0o600 });
  const [line] = (await diagnose(file)).of('store');
  expect(line).toMatch(
    /^fail store: .*store\.db is damaged or not a database .* → it was left unchanged; restore a backup/,
  );
});

it('doctor reports a port that another program uses', async () => {
  const taken = createServer(socket => socket.end('220 not HTTP\r\n', () => socket.destroy()));
  await new Promise<void>(resolve => taken.listen(0, '127.0.0.1', resolve));
  afterThisTest(() => new Promise(resolve => taken.close(() => resolve())));
  const address = taken.address();
  const port = typeof address === 'object' ? address?.port : 0;
  const { of } = await diagnose(configFile(await answers(), { server: { listen: `127.0.0.1:${port}` } }));
  expect(of('port')).toEqual([
    `fail port: 127.0.0.1:${port} is in use by another program → stop that program, or configure another port`,
  ]);
});

async function startWith(more: object = {}) {
  const emulator = await emulateEmpty();
  const env = { DELIVERY_TOKEN: emulator.token };
  // Choose the port first, because the configuration must contain it.
  const free = createServer();
  await new Promise<void>(resolve => free.listen(0, '127.0.0.1', resolve));
  const address = free.address();
  const listen = `127.0.0.1:${typeof address === 'object' ? address?.port : 0}`;
  await new Promise(resolve => free.close(resolve));
  const file = configFile(emulator, { server: { listen }, ...more });
  const agent = await startAgent(loadConfig(file, env), { env, clock: systemClock, random: Math.random });
  afterThisTest(() => agent.close());
  return { file, env, listen };
}

it('if the store is in memory, doctor warns that the port is in use, without naming a process', async () => {
  const { file, env, listen } = await startWith({ store: { kind: 'memory' } });
  expect((await diagnose(file, { env })).of('port')).toEqual([
    `warn port: ${listen} is in use → check whether this agent uses the port`,
  ]);
});

it.skipIf(process.platform !== 'linux')(
  'doctor recognizes the running agent by the process that holds the store',
  async () => {
    const { file, env, listen } = await startWith();
    const { of } = await diagnose(file, { env });
    expect(of('port')).toEqual([
      `ok port: ${listen} is in use, probably by process ${process.pid}, which uses the store`,
    ]);
    expect(of('store')).toEqual([
      expect.stringMatching(new RegExp(`^ok store: .*store\\.db, schema 2, \\d+ MiB; process ${process.pid} uses it$`)),
    ]);
  },
);

it('doctor connects to receivers without sending anything', async () => {
  const hook = await serve();
  const env = { DELIVERY_TOKEN: TOKEN, BEAT: `${hook.url}/canary-7f3a`, NOTHING: 'http://127.0.0.1:1/canary-7f3a' };
  const file = configFile(await answers(), {
    alerts: {
      enabled: true,
      notifiers: [
        { name: 'ops', alertmanager: { urls: [hook.url] } },
        { name: 'chat', webhook: { url: { env: 'NOTHING' }, format: 'slack' } },
      ],
    },
    heartbeat: { url: { env: 'BEAT' } },
    tracing: { enabled: true, endpoint: 'http://127.0.0.1:1', headers: { 'api-key': { env: 'BEAT' } } },
  });
  const { all } = await diagnose(file, { env });
  expect(all.slice(-4)).toEqual([
    `ok notifier ops: ${hook.url}`,
    `fail notifier chat: ${NOWHERE}: ECONNREFUSED → nothing listens there: check the address, its port and the firewall`,
    `ok heartbeat: ${hook.url}`,
    `fail tracing: ${NOWHERE}: ECONNREFUSED → nothing listens there: check the address, its port and the firewall`,
  ]);
  expect(hook.requests).toEqual([]);
  const refused = await diagnose(file, { env: { ...env, OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'grpc' } });
  expect(refused.all).toContainEqual(
    expect.stringMatching(
      /^fail configuration: .*: tracing: OTEL_EXPORTER_OTLP_PROTOCOL is grpc; it must be one of http\/protobuf, http\/json →/,
    ),
  );
  const moved = await diagnose(file, { env: { ...env, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${hook.url}/in` } });
  expect(moved.all.at(-1)).toBe(`ok tracing: ${hook.url}`);
});

it('doctor shows no secret, regardless of the service’s responses', async () => {
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
    expect(all.join('\n')).toContain('through the proxy 127.0.0.1:1');
  }
});
