import { copyFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createPlain } from 'node:http';
import { createServer as createSecure } from 'node:https';
import { type AddressInfo, createServer as createTcp, type Server } from 'node:net';
import { join } from 'node:path';
import { hashSync } from 'bcryptjs';
import { describe, expect, it } from 'vitest';
import { createCertificate } from '../hostile/certificate.ts';
import { createAgent } from '../support/agent.ts';
import { runCli } from '../support/cli.ts';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';
import { postgresForTests, postgresIsThere } from '../support/postgres.ts';
import { freePort } from '../support/prometheus.ts';

const ACCOUNTS = [{ name: 'a', baseUrl: 'http://127.0.0.1:1', token: 'token-canary' }];
const HEALTHY = { code: 0, stdout: '', stderr: '' };
const healthcheck = (file: string, env = {}) => runCli(['healthcheck', '--config', file], env);

/** Writes a web-config file with these sections and returns its path. */
function webConfig(sections: object): string {
  const folder = newFolder();
  for (const name of ['server.pem', 'server.key', 'authority.pem']) {
    copyFileSync(`test/support/certificates/${name}`, join(folder, name));
  }
  writeFileSync(join(folder, 'web.yaml'), JSON.stringify(sections));
  return join(folder, 'web.yaml');
}

const tlsWith = (more: object = {}) => ({
  tls_server_config: { cert_file: 'server.pem', key_file: 'server.key', ...more },
});
const clientsWith = (type: string) => tlsWith({ client_auth_type: type, client_ca_file: 'authority.pem' });
const USERS = { basic_auth_users: { alice: hashSync('password-canary', 4) } };

/** Starts an agent. `sections`: its web-config file. */
async function startAgent(config: object = {}, server: object = {}, sections?: object) {
  const webConfigFile = sections && webConfig(sections);
  const listen = { server: { listen: '127.0.0.1:0', ...(webConfigFile && { webConfigFile }), ...server } };
  const agent = createAgent({ ...listen, accounts: ACCOUNTS, ...config });
  const url = await agent.start();
  return { agent, url, webConfigFile, file: agent.configFile, text: readFileSync(agent.configFile, 'utf8') };
}

/** Opens a port of another program and returns `host:port`. */
async function openServer(server: Server, port = 0): Promise<string> {
  await new Promise<void>(resolve => server.listen(port, '127.0.0.1', resolve));
  afterThisTest(async () => void server.close());
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Makes the configuration invalid in every part, as an interrupted edit does. */
const broken = (text: string) => `${text.slice(0, -1)}, accounts: [{`;

describe('healthcheck of a running agent', () => {
  it.each<[string, object, object?]>([
    ['on a random port', {}],
    ['on all addresses', { listen: '0.0.0.0:0' }],
    ['on all IPv6 addresses', { listen: '[::]:0' }],
    ['on an IPv6 address', { listen: '[::1]:0' }],
    ['with passwords', {}, USERS],
    ['with allowed hosts', { allowedHosts: ['dw.example.com'] }],
    ['with TLS', {}, tlsWith()],
  ])('healthcheck exits with 0 for an agent %s, and with 1 after its end', async (_what, server, sections) => {
    const { agent, file } = await startAgent({}, server, sections);
    expect(await healthcheck(file)).toEqual(HEALTHY);
    await agent.end();
    expect(await healthcheck(file)).toMatchObject({ code: 1, stdout: '' });
  });

  it('healthcheck supports an agent that has a fixed port and requires verified client certificates', async () => {
    const server = { listen: `127.0.0.1:${await freePort()}` };
    const { agent, file } = await startAgent({}, server, clientsWith('RequireAndVerifyClientCert'));
    expect(await healthcheck(file)).toEqual(HEALTHY);
    await agent.end();
    expect((await healthcheck(file)).code).toBe(1);
  });

  it('healthcheck uses the port for probes if the main port requires a client certificate', async () => {
    const probesListen = `127.0.0.1:${await freePort()}`;
    const { agent, file } = await startAgent({}, { probesListen }, clientsWith('RequireAnyClientCert'));
    expect(await healthcheck(file)).toEqual(HEALTHY);
    await agent.end();
    expect((await healthcheck(file)).code).toBe(1);
  });

  it('healthcheck exits with 0 after a refused reload, and while the web-config file is missing', async () => {
    const { agent, file, text, webConfigFile = '' } = await startAgent({}, {}, { ...tlsWith(), ...USERS });
    rmSync(webConfigFile);
    expect(await healthcheck(file)).toEqual(HEALTHY);
    const port = await freePort();
    const refused = [
      broken(text),
      text.replace('127.0.0.1:0', `127.0.0.1:${port}`).replace('"accounts"', '"acounts"'),
      text.replace('"listen"', '"listn"'),
    ];
    for (const [index, content] of refused.entries()) {
      writeFileSync(file, content);
      agent.process.kill('SIGHUP');
      await eventually(() =>
        expect(agent.process.stderr().match(/failed to reload configuration/g)).toHaveLength(index + 1),
      );
      expect(await healthcheck(file)).toEqual(HEALTHY);
    }
  });

  it('healthcheck exits with 0 after a refused change of the store', async () => {
    const { file, text } = await startAgent({}, { listen: `127.0.0.1:${await freePort()}` });
    writeFileSync(file, text.replace('store.db', 'other.db'));
    expect(await healthcheck(file)).toEqual(HEALTHY);
  });

  it('healthcheck of an agent with a store in memory exits with 0 only if an agent responds at its address', async () => {
    for (const sections of [USERS, tlsWith(), undefined]) {
      const listen = `127.0.0.1:${await freePort()}`;
      const { agent, file } = await startAgent({ store: { kind: 'memory' } }, { listen }, sections);
      expect(await healthcheck(file)).toEqual(HEALTHY);
      await agent.end();
      expect((await healthcheck(file)).code).toBe(1);
      await openServer(
        createPlain((_request, response) => response.end('ok')),
        Number(listen.split(':')[1]),
      );
      expect(await healthcheck(file)).toEqual({
        code: 1,
        stdout: '',
        stderr: `http://${listen}: another program responds\n`,
      });
    }
  });
});

describe('healthcheck of an agent that is not running', () => {
  const OTHERS: [string, () => Server][] = [
    ['says that it is healthy', () => createPlain((_, response) => response.end('delivery-watch is healthy\n'))],
    ['requires a password', () => createPlain((_, response) => response.writeHead(401).end())],
    ['never responds', () => createTcp(socket => socket.resume())],
    ['uses TLS', () => createSecure(createCertificate(), (_, response) => response.end())],
  ];
  it.each(OTHERS)('healthcheck exits with 1 if another program on the port %s', async (_what, create) => {
    const port = await freePort();
    const { agent, file } = await startAgent({}, { listen: `127.0.0.1:${port}` });
    await agent.end();
    await openServer(create(), port);
    expect(await healthcheck(file)).toMatchObject({ code: 1, stdout: '' });
  });

  it('healthcheck exits with 1 if the port is used by an agent with another store', async () => {
    const listen = `127.0.0.1:${await freePort()}`;
    const { agent, file } = await startAgent({}, { listen });
    await agent.end();
    const other = await startAgent({}, { listen });
    expect([(await healthcheck(file)).code, (await healthcheck(other.file)).code]).toEqual([1, 0]);
  });

  it('healthcheck exits with 1 and the reason if the configuration file and the store are missing', async () => {
    const file = join(newFolder(), 'config.yaml');
    expect(await healthcheck(file)).toEqual({ code: 1, stdout: '', stderr: `${file} does not exist\n` });
  });
});

describe.skipIf(!postgresIsThere())('healthcheck of replicas', () => {
  const postgres = postgresForTests();

  it('healthcheck of a replica does not count other replicas, and needs no database', async () => {
    const env = { DATABASE_URL: await postgres().createDatabase() };
    const start = async (listen: string) => {
      const agent = createAgent(
        { server: { listen }, store: { kind: 'postgres', url: { env: 'DATABASE_URL' } }, accounts: ACCOUNTS },
        env,
      );
      await agent.start();
      return agent;
    };
    const one = await start(`127.0.0.1:${await freePort()}`);
    const two = await start(`127.0.0.1:${await freePort()}`);
    const check = async () => [
      (await healthcheck(one.configFile, env)).code,
      (await healthcheck(two.configFile, env)).code,
    ];
    expect(await check()).toEqual([0, 0]);
    const text = readFileSync(one.configFile, 'utf8');
    writeFileSync(one.configFile, text.replace(/127\.0\.0\.1:\d+/, '127.0.0.1:1'));
    await eventually(async () => expect(await check()).toEqual([0, 0]));
    await one.end();
    expect(await check()).toEqual([1, 0]);
    await postgres().stop();
    expect(await check()).toEqual([1, 0]);
  });
});
