import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { startAgent } from '../support/agent.ts';
import { startSources } from '../support/bundle.ts';
import { runCli, startCli } from '../support/cli.ts';
import { afterThisTest } from '../support/client.ts';
import { collectOnly } from '../support/collect.ts';
import { eventually } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';
import { json, serve } from '../support/http-service.ts';
import { freePort } from '../support/prometheus.ts';

function configFile(config: object): string {
  const folder = newFolder();
  const file = join(folder, 'config.yaml');
  writeFileSync(file, JSON.stringify({ store: { kind: 'memory' }, ...config }));
  return file;
}

async function startServe(config: object) {
  const { process: agent, url, value } = await startAgent({ store: { kind: 'memory' }, ...config });
  return { agent, url, value };
}

const account = (baseUrl: string) => ({ name: 'a', baseUrl, token: { env: 'DELIVERY_TOKEN' } });
/** Half of the shortest wait that a shutdown must interrupt (ms). */
const LONG_BEFORE = 300_000;

const onlyFlowControl = (every: string) => ({ ...collectOnly('flowControl'), flowControl: { every } });

describe('shutdown from the sources, as with `npm start`', () => {
  // `startSources` returns its teardown function.
  beforeAll(startSources);

  it.each(['SIGTERM', 'SIGINT'] as const)(
    'serve exits with 0 on %s during a slow round, long before the round would end',
    async signal => {
      const { promise: reached, resolve } = Promise.withResolvers<void>();
      const service = await serve(() => resolve());
      const slow = { ...account(service.url), upstream: { timeout: '10m' } };
      const { agent, url } = await startServe({ accounts: [slow] });
      await reached;
      const scrape = await fetch(`${url}/metrics`);
      expect(scrape.status).toBe(200);
      const start = performance.now();
      agent.kill(signal);
      expect(await agent.ended).toBe(0);
      expect(performance.now() - start).toBeLessThan(LONG_BEFORE);
      expect(agent.stderr()).toContain('"msg":"stopped"');
    },
  );
});

describe('signals, outages and reloads', () => {
  it('serve exits on SIGTERM without waiting for a request that is delayed by an almost exhausted budget', async () => {
    const service = await serve((_request, response) => json(response, { messages: [], events: [] }));
    const budget = { requestsPerSecond: 0.001, burst: 1 };
    const { agent, value } = await startServe({ accounts: [{ ...account(service.url), budget }] });
    await eventually(async () => expect(await value('delivery_watch_api_budget_remaining')).toBeLessThan(199_999));
    const start = performance.now();
    agent.kill('SIGTERM');
    expect(await agent.ended).toBe(0);
    expect(performance.now() - start).toBeLessThan(LONG_BEFORE);
  });

  it('on SIGHUP, serve reloads its configuration or, if it is invalid, reports errors with their positions and keeps running', async () => {
    const service = await serve((_request, response) => json(response, []));
    const config = { accounts: [account(service.url)], collect: onlyFlowControl('1s') };
    const { process: agent, url, configFile: file, value } = await startAgent(config);
    const isShownValid = () => value('delivery_watch_config_last_reload_successful');
    const before = readFileSync(file, 'utf8');
    agent.kill('SIGHUP');
    await agent.says(/"changed":\[\],"msg":"configuration reloaded without changes"/);
    writeFileSync(file, before.replace('"1s"', '"2s"'));
    agent.kill('SIGHUP');
    await agent.says(/"changed":\["accounts: a changed","collect changed"\],"msg":"configuration reloaded"/);
    writeFileSync(
      file,
      `accounts:\n  - { name: a, baseUrl: ${service.url}, token: { env: ABSENT } }\nserver: { listn: x }\n`,
    );
    agent.kill('SIGHUP');
    await agent.says(
      /"line":3,"column":11,"path":"server\.listn".*unknown key[\s\S]*failed to reload configuration; the current one stays in use/,
    );
    rmSync(file);
    agent.kill('SIGHUP');
    await agent.says(/does not exist/);
    expect(await isShownValid()).toBe(0);
    writeFileSync(file, before);
    agent.kill('SIGHUP');
    await eventually(async () => expect(await isShownValid()).toBe(1));
    expect((await fetch(`${url}/metrics`)).status).toBe(200);
    // Send more signals than the agent has time to handle.
    for (let count = 0; count < 50; count += 1) agent.kill('SIGHUP');
    agent.kill('SIGTERM');
    expect(await agent.ended).toBe(0);
    expect(agent.stderr()).not.toContain('token-canary');
  });

  it.each([
    ['serve', 2, null],
    ['doctor', null, 'SIGHUP'],
  ])('%s exits with status %s and signal %s if it receives SIGHUP while it is loading', (command, status, signal) => {
    const hook = `import { registerHooks } from 'node:module';
      registerHooks({
        resolve(name, context, next) {
          if (name.endsWith('cli.ts')) process.kill(process.pid, 'SIGHUP');
          return next(name, context);
        },
      });`;
    const preload = `data:text/javascript,${encodeURIComponent(hook)}`;
    const args = ['--import', preload, 'src/main.ts', command, '--config', 'not-there.yaml'];
    expect(spawnSync(process.execPath, args, { encoding: 'utf8' })).toMatchObject({ status, signal });
  });

  it('serve keeps running when its log is not read', async () => {
    const service = await serve((_request, response) => json(response, [], 403));
    const file = configFile({
      server: { listen: '127.0.0.1:0' },
      log: { level: 'debug' },
      accounts: [{ ...account(service.url), budget: { requestsPerSecond: 1000, burst: 1000 } }],
      collect: onlyFlowControl('10ms'),
    });
    const agent = spawn(process.execPath, ['src/main.ts', 'serve', '--config', file], {
      env: { DELIVERY_TOKEN: 'x' },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const ended = once(agent, 'exit');
    afterThisTest(async () => {
      agent.kill('SIGKILL');
      await ended;
    });
    // Wait for the lines that contain the address; then stop reading, so that the pipe fills up.
    let log = '';
    let url: string | undefined;
    agent.stderr.setEncoding('utf8');
    for await (const chunk of agent.stderr.iterator({ destroyOnReturn: false })) {
      log += chunk;
      url = /"url":"([^"]+)"/.exec(log)?.[1];
      if (url) break;
    }
    agent.stderr.pause();
    const rounds = async () => {
      const text = await (await fetch(`${url}/metrics`, { signal: AbortSignal.timeout(5000) })).text();
      return Number(/endpoint="flow_control",outcome="forbidden"} (\d+)/.exec(text)?.[1]);
    };
    // Each round logs more than 150 characters, and a pipe holds about 65,000: after 800 rounds it is full.
    await eventually(async () => expect(await rounds()).toBeGreaterThan(800));
  });

  it('serve keeps the last data of a failing service, marks it stale, withdraws it and recovers', async () => {
    let status = 200;
    const service = await serve((_request, response) =>
      json(
        response,
        status === 200
          ? { flowControls: [{ flowControlKey: 'k', waitListSize: 7 }] }
          : { error: 'no token-canary here' },
        status,
      ),
    );
    const { agent, value } = await startServe({
      accounts: [{ ...account(service.url), budget: { requestsPerSecond: 1000, burst: 1000 } }],
      collect: onlyFlowControl('200ms'),
      staleness: { markAfter: 10, withdrawAfter: 20 },
    });
    const waitlist = () => value('delivery_flow_control_waitlist_size', { flow_control_key: 'k' });
    const stale = () => value('delivery_collector_data_stale');
    await eventually(async () => expect(await waitlist()).toBe(7));
    expect([await value('delivery_up'), await stale()]).toEqual([1, 0]);

    status = 403;
    await eventually(async () => expect(await value('delivery_up')).toBe(0));
    expect(await waitlist()).toBe(7);
    expect(await value('delivery_collector_success')).toBe(0);
    await eventually(async () => expect(await stale()).toBe(1));
    await eventually(async () => expect(await waitlist()).toBeUndefined());
    expect(await value('delivery_collector_consecutive_failures')).toBeGreaterThan(3);
    expect(await value('delivery_collector_data_timestamp_seconds')).toBeGreaterThan(1_700_000_000);
    expect(
      await value('delivery_watch_api_requests_total', { endpoint: 'flow_control', outcome: 'forbidden' }),
    ).toBeGreaterThan(3);

    status = 200;
    await eventually(async () => expect(await waitlist()).toBe(7));
    await eventually(async () => expect([await value('delivery_up'), await stale()]).toEqual([1, 0]));
    agent.kill('SIGTERM');
    expect(await agent.ended).toBe(0);
    const log = agent.stderr();
    expect(log.match(/collection failed/g)).toHaveLength(1);
    expect(log).toContain('collection recovered');
    expect(log).not.toContain('canary');
  });

  it('at the next complete round, serve drops a key that the service no longer lists', async () => {
    let keys = [
      { flowControlKey: 'stays', waitListSize: 1 },
      { flowControlKey: 'goes', waitListSize: 2 },
    ];
    const service = await serve((_request, response) => json(response, { flowControls: keys }));
    const { value } = await startServe({ accounts: [account(service.url)], collect: onlyFlowControl('200ms') });
    const size = (key: string) => value('delivery_flow_control_waitlist_size', { flow_control_key: key });
    await eventually(async () => expect([await size('stays'), await size('goes')]).toEqual([1, 2]));
    keys = [{ flowControlKey: 'stays', waitListSize: 3 }];
    await eventually(async () => expect([await size('stays'), await size('goes')]).toEqual([3, undefined]));
  });

  it('serve never replaces data with a partial list', async () => {
    let broken = false;
    const service = await serve((request, response) => {
      const second = request.url?.includes('cursor=');
      if (second && broken) json(response, { error: 'x' }, 404);
      else if (second) json(response, { messages: [{ dlqId: '2-0' }] });
      else json(response, { cursor: 'next', messages: broken ? [{ dlqId: '9-0' }] : [{ dlqId: '1-0' }] });
    });
    const { value } = await startServe({
      accounts: [{ ...account(service.url), budget: { requestsPerSecond: 1000, burst: 1000 } }],
      collect: { flowControl: { enabled: false }, dlq: { every: '100ms' }, events: { enabled: false } },
      staleness: { markAfter: 1000, withdrawAfter: 10_000 },
    });
    await eventually(async () => expect(await value('delivery_dlq_messages')).toBe(2));
    broken = true;
    await eventually(async () => expect(await value('delivery_collector_consecutive_failures')).toBeGreaterThan(2));
    expect(await value('delivery_dlq_messages')).toBe(2);
    expect(await value('delivery_collector_data_complete')).toBe(0);
  });

  it('an unresponsive account delays neither another account nor a scrape', async () => {
    const healthy = await serve((_request, response) => json(response, [{ flowControlKey: 'k', waitListSize: 1 }]));
    const dead = await serve(() => undefined);
    const { value, url } = await startServe({
      accounts: [account(dead.url), { ...account(healthy.url), name: 'healthy' }],
      collect: onlyFlowControl('100ms'),
    });
    await eventually(async () => expect(await value('delivery_up', { account: 'healthy' })).toBe(1));
    const rounds = await value('delivery_watch_api_requests_total', {
      account: 'healthy',
      endpoint: 'flow_control',
      outcome: 'ok',
    });
    await eventually(async () =>
      expect(
        await value('delivery_watch_api_requests_total', {
          account: 'healthy',
          endpoint: 'flow_control',
          outcome: 'ok',
        }),
      ).toBeGreaterThan((rounds ?? 0) + 3),
    );
    const probe = await fetch(`${url}/probe?account=a`);
    expect(probe.status).toBe(200);
    expect(await probe.text()).toContain('delivery_up{account="a"} 0');
  });
});

describe('closed output', () => {
  it('emulate keeps running when the reader of its output disconnects', async () => {
    const port = await freePort();
    const emulator = spawn(process.execPath, ['src/main.ts', 'emulate', '--port', String(port)], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const ended = once(emulator, 'exit');
    emulator.stdout.destroy();
    let errors = '';
    emulator.stderr.on('data', chunk => {
      errors += chunk;
    });
    // A response proves that the process has already tried to print its address.
    await eventually(async () => expect((await fetch(`http://127.0.0.1:${port}/_emulator/state`)).status).toBe(200));
    const early = await Promise.race([ended, new Promise(resolve => setTimeout(resolve, 1000, 'running'))]);
    expect(early).toBe('running');
    emulator.kill('SIGTERM');
    expect(await ended).toEqual([0, null]);
    expect(errors).toBe('');
  });
});

describe('command usage', () => {
  it('commands print help and describe usage errors', async () => {
    expect(await runCli(['--help'])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('check-config [options] <file>'),
    });
    expect(await runCli(['--version'])).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) });
    expect(await runCli(['dance'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("unknown command 'dance'"),
    });
    expect(await runCli(['serve'])).toMatchObject({ code: 2, stderr: expect.stringContaining('--config FILE') });
    expect(await runCli(['emulate', '--speed', 'fast'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('must be a number from 0'),
    });
    expect(await runCli(['demo', '--listen', 'here'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('must be host:port'),
    });
    const unknownScenario = { code: 2, stderr: expect.stringContaining('steady') };
    expect(await runCli(['demo', '--scenario', 'peace', '--listen', '127.0.0.1:0'])).toMatchObject(unknownScenario);
    expect(await runCli(['emulate', '--scenario', 'peace', '--port', '0'])).toMatchObject(unknownScenario);
  });

  it('check-config prints a summary and exits with 0, or prints every error and exits with 2', async () => {
    const good = await runCli(['check-config', 'config.example.yaml'], { DELIVERY_TOKEN: 'x' });
    expect(good).toEqual({
      code: 0,
      stdout: 'config.example.yaml is valid: 1 account (production)\n',
      stderr: expect.stringMatching(
        /^warning: config.example.yaml:\d+:\d+: server.listen: is 0.0.0.0:10922, without .*\n$/,
      ),
    });
    const bad = await runCli(['check-config', 'test/config/bad/unknown-key.yaml'], { TOKEN: 'x' });
    expect(bad).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('unknown-key.yaml:2:11: server.lisen: unknown key'),
    });
    const server = { public: true };
    const file = configFile({ server, accounts: [account('http://127.0.0.1:1')], tracing: { enabled: true } });
    const env = { DELIVERY_TOKEN: 'x', OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' };
    const message = 'tracing: OTEL_EXPORTER_OTLP_PROTOCOL is grpc; it must be one of http/protobuf, http/json\n';
    const stderr = expect.stringMatching(new RegExp(`^${file}:\\d+:\\d+: ${message}$`));
    expect(await runCli(['check-config', file], env)).toEqual({ code: 2, stdout: '', stderr });
    // Exit code 2 keeps systemd from restarting the agent, which would not help.
    expect(await runCli(['serve', '--config', file], env)).toEqual({ code: 2, stdout: '', stderr });
  });

  it('serve exits with 2 on an invalid configuration and with 1 if its port is in use', async () => {
    expect(await runCli(['serve', '--config', 'test/config/bad/unknown-key.yaml'], { TOKEN: 'x' })).toMatchObject({
      code: 2,
    });
    const taken = await serve(() => undefined);
    const listen = new URL(taken.url).host;
    const file = configFile({ server: { listen }, accounts: [account('http://127.0.0.1:1')] });
    const { code, stderr } = await runCli(['serve', '--config', file], { DELIVERY_TOKEN: 'x' });
    expect(code).toBe(1);
    expect(stderr).toContain(`can't listen on ${listen}: the address is in use\n`);
  });

  it('emulate prints its address and token, and responds to requests', async () => {
    const emulator = startCli(['emulate', '--port', '0', '--speed', '0']);
    const [, url = ''] = await emulator.says(/url\s+(\S+)/);
    const [, token = ''] = await emulator.says(/token\s+(\S+)/);
    const list = await fetch(`${url}/v2/flowControl`, { headers: { authorization: `Bearer ${token}` } });
    expect(await list.json()).toHaveProperty('flowControls');
    emulator.kill('SIGTERM');
    expect(await emulator.ended).toBe(0);
  });
});
