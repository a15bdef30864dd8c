import { writeFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:https';
import { type AddressInfo, connect } from 'node:net';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { examine } from '../../src/cli/doctor/doctor.ts';
import { systemClock } from '../../src/kit/clock.ts';
import { createCertificate } from '../hostile/certificate.ts';
import { createAgent } from '../support/agent.ts';
import { runCli } from '../support/cli.ts';
import { afterThisTest } from '../support/client.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { newFolder } from '../support/folder.ts';

const accountOf = (baseUrl: string) => ({ name: 'a', baseUrl, token: { env: 'DELIVERY_TOKEN' } });

it('doctor runs alongside an agent and exits with 0, with 1 after a failed check, or with 2 on an invalid configuration', async () => {
  const emulator = await emulateEmpty();
  const env = { DELIVERY_TOKEN: emulator.token };
  const agent = createAgent({ accounts: [accountOf(emulator.url)] }, env);
  await agent.start();
  const doctor = (more: Record<string, string> = {}, ...options: string[]) =>
    runCli(['doctor', '--config', agent.configFile, ...options], { ...env, ...more });
  const well = await doctor();
  expect(well).toMatchObject({ code: 0, stderr: '' });
  expect(well.stdout).toMatch(/^ok +store +\S+store\.db, schema 2, /m);
  if (process.platform === 'linux') expect(well.stdout).toContain(`process ${agent.process.pid} uses it`);

  const refused = await doctor({ DELIVERY_TOKEN: 'canary-7f3a' }, '--json');
  expect(refused).toMatchObject({ code: 1, stderr: 'failed: a: token\n' });
  const { checks } = JSON.parse(refused.stdout);
  expect(checks.find(({ check }: { check: string }) => check === 'token')).toEqual({
    account: 'a',
    check: 'token',
    status: 'fail',
    detail:
      'the service rejects the token in the environment variable DELIVERY_TOKEN: unable to authenticate: invalid token',
    todo: 'replace the token: docs/access.md#tokens',
  });
  expect(refused.stdout).not.toContain('canary');
  expect(await agent.value('delivery_watch_build_info')).toBe(1);
  expect(await agent.end('SIGTERM')).toBe(0);

  writeFileSync(agent.configFile, '{"accounts": []}');
  const invalid = await doctor();
  expect(invalid).toMatchObject({ code: 2, stderr: 'failed: configuration\n' });
  expect(invalid.stdout).toMatch(
    /^fail +configuration +\S+config\.yaml:1:\d+: accounts: must have at least one account/m,
  );
});

it('doctor checks certificates, with and without a proxy', async () => {
  const certificate = createCertificate();
  const service = createServer(certificate, (_request, response) => response.end('[]'));
  const proxy = createHttpServer().on('connect', (request, socket) => {
    if (request.headers['proxy-authorization'] === undefined) {
      socket.end('HTTP/1.1 407 Who are you\r\n\r\n');
      return;
    }
    const onward = connect((service.address() as AddressInfo).port, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      onward.pipe(socket).pipe(onward);
    });
    onward.on('error', () => socket.destroy());
    socket.on('error', () => onward.destroy());
  });
  const portOf = async (server: typeof service | typeof proxy) => {
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
    afterThisTest(async () => {
      server.closeAllConnections();
      server.close();
    });
    return (server.address() as AddressInfo).port;
  };
  const [url, proxyHost] = [`https://127.0.0.1:${await portOf(service)}`, `127.0.0.1:${await portOf(proxy)}`];
  const folder = newFolder();
  const [file, caFile] = [join(folder, 'config.yaml'), join(folder, 'ca.pem')];
  writeFileSync(caFile, certificate.cert);
  const ways = [
    {},
    { caFile },
    { caFile, proxy: `http://user:canary-7f3a@${proxyHost}` },
    { caFile, proxy: `http://${proxyHost}` },
  ];
  const accounts = ways.map((upstream, index) => ({ ...accountOf(url), name: String(index), upstream }));
  writeFileSync(file, JSON.stringify({ accounts, store: { kind: 'memory' }, server: { listen: '127.0.0.1:0' } }));
  const { lines } = await examine(file, {
    env: { DELIVERY_TOKEN: 'x' },
    clock: systemClock,
    random: Math.random,
    signal: new AbortController().signal,
  });
  const found = lines.filter(({ check }) => check === 'connection');
  const shown = (detail: string) => detail.replace(/TLSv1\.\d/, 'TLS').replace(/\d{4}-\d\d-\d\d/, 'DAY');
  expect(found.map(({ status, detail }) => `${status} ${shown(detail)}`)).toEqual([
    `fail ${url}: DEPTH_ZERO_SELF_SIGNED_CERT`,
    `warn ${url}, TLS, certificate until DAY: 1 days`,
    `warn ${url} through the proxy ${proxyHost}, TLS, certificate until DAY: 1 days`,
    `fail ${url} through the proxy ${proxyHost}: the proxy returned 407`,
  ]);
  expect(JSON.stringify(lines)).not.toContain('canary');
});
