import { cpSync, mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { hashSync } from 'bcryptjs';
import { describe, expect, it } from 'vitest';
import { createAgent } from '../support/agent.ts';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';
import { makeAuthority, makeCertificate } from '../support/openssl.ts';
import { freePort, requireProgram, startPrometheus } from '../support/prometheus.ts';
import { run } from '../support/run.ts';

const PASSWORD = 'password-canary';
const HASH = hashSync(PASSWORD, 10);
const ENV = { DELIVERY_TOKEN: 'token-canary', PATH: process.env.PATH ?? '' };
const ACCOUNT = { name: 'a', baseUrl: 'http://127.0.0.1:1', token: { env: 'DELIVERY_TOKEN' } };

/** Replaces a symbolic link atomically. */
function switchLink(link: string, to: string): void {
  symlinkSync(to, `${link}.new`);
  renameSync(`${link}.new`, link);
}

/** Starts an agent that requires a client certificate and a password, with newly created certificates. */
async function startProtected(server: object = {}, more: object = {}) {
  const folder = newFolder();
  for (const name of ['authority', 'stranger']) makeAuthority(folder, name);
  for (const name of ['server', 'renewed', 'scraper']) makeCertificate(folder, name, 'authority');
  for (const name of ['server', 'renewed']) {
    mkdirSync(join(folder, `${name}.d`));
    for (const [kind, as] of [
      ['pem', 'tls.crt'],
      ['key', 'tls.key'],
    ] as const) {
      cpSync(join(folder, `${name}.${kind}`), join(folder, `${name}.d`, as));
    }
  }
  switchLink(join(folder, 'data'), 'server.d');
  const web = {
    tls_server_config: {
      cert_file: 'data/tls.crt',
      key_file: 'data/tls.key',
      client_auth_type: 'RequireAndVerifyClientCert',
      client_ca_file: 'authority.pem',
    },
    basic_auth_users: { prometheus: HASH },
  };
  const webConfigFile = join(folder, 'web.yaml');
  writeFileSync(webConfigFile, JSON.stringify(web));
  const agent = createAgent(
    { server: { listen: '127.0.0.1:0', webConfigFile, ...server }, accounts: [ACCOUNT], ...more },
    ENV,
  );
  const url = await agent.start();
  const at = (name: string) => join(folder, name);
  const certificate = ['--cert', at('scraper.pem'), '--key', at('scraper.key')];
  const curl = (path: string, ...args: string[]) =>
    run('curl', ['--silent', '--show-error', '--cacert', at('authority.pem'), ...args, url + path], ENV);
  return {
    agent,
    url,
    at,
    web,
    webConfigFile,
    certificate,
    curl,
    /** Sends a request with all credentials and appends the status code. */
    authorized: (path: string, ...args: string[]) =>
      curl(path, ...certificate, '--user', `prometheus:${PASSWORD}`, '--write-out', '\n%{http_code}', ...args),
  };
}

/** Expects a text to contain no secret. */
function expectNoSecrets(text: string, keyFile: string): void {
  const secrets = ['canary', HASH, HASH.slice(7, 40), readFileSync(keyFile, 'utf8').split('\n')[1] ?? ''];
  for (const secret of secrets) expect(text).not.toContain(secret);
}

describe.skipIf(!requireProgram('openssl') || !requireProgram('prometheus'))('access from Prometheus', () => {
  it('a protected port accepts scrapes only from a Prometheus with the client certificate and the password', async () => {
    const { url, at, agent } = await startProtected();
    const { host } = new URL(url);
    const tls_config = { ca_file: at('authority.pem'), cert_file: at('scraper.pem'), key_file: at('scraper.key') };
    const basic_auth = { username: 'prometheus', password: PASSWORD };
    const job = (job_name: string, settings: object) => ({
      job_name,
      scheme: 'https',
      tls_config,
      basic_auth,
      static_configs: [{ targets: [host] }],
      ...settings,
    });
    const discovery = { url: `${url}/api/v1/sd`, tls_config, basic_auth, refresh_interval: '1s' };
    const { static_configs: _, scheme: __, ...discovered } = job('discovered', { http_sd_configs: [discovery] });
    const prometheus = await startPrometheus({
      scrapeConfigs: [
        job('right', {}),
        job('wrong-password', { basic_auth: { ...basic_auth, password: 'wrong' } }),
        job('no-password', { basic_auth: undefined }),
        job('no-certificate', { tls_config: { ca_file: at('authority.pem') } }),
        job('other-authority', { tls_config: { ...tls_config, ca_file: at('stranger.pem') } }),
        job('plain', { scheme: 'http' }),
        discovered,
      ],
    });
    afterThisTest(() => prometheus.stop());
    await eventually(async () => {
      const up = await prometheus.query('up');
      expect(Object.fromEntries(up.map(({ metric, value }) => [metric.job, value]))).toEqual({
        right: 1,
        'wrong-password': 0,
        'no-password': 0,
        'no-certificate': 0,
        'other-authority': 0,
        plain: 0,
        discovered: 1,
      });
    });
    const [build] = await prometheus.query('delivery_watch_build_info{job="right"}');
    expect(build?.value).toBe(1);
    expectNoSecrets(agent.process.stderr(), at('server.key'));
  });
});

describe.skipIf(!requireProgram('openssl') || !requireProgram('curl'))('access with curl', () => {
  it('a protected port requires certificate and password, reloads a renewed certificate, and returns 503 while its web-config file is broken', async () => {
    const { curl, authorized, certificate, at, agent, webConfigFile, web } = await startProtected();
    expect((await authorized('/-/healthy', '--include')).stdout).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    expect((await curl('/metrics')).stderr).toMatch(/certificate required|Connection reset|SSL/);
    expect((await curl('/metrics', ...certificate, '--include')).stdout).toMatch(
      /^HTTP\/1\.1 401 .*WWW-Authenticate: Basic /s,
    );

    const server = async () => /subject: CN=(\w+)/.exec((await authorized('/', '--verbose')).stderr)?.[1];
    expect(await server()).toBe('server');
    switchLink(at('data'), 'renewed.d');
    await eventually(async () => expect(await server()).toBe('renewed'));

    writeFileSync(webConfigFile, '{');
    await eventually(async () => expect((await authorized('/metrics')).stdout).toMatch(/\n503$/));
    for (const path of ['/', '/-/healthy', '/nowhere']) expect((await authorized(path)).stdout).toMatch(/\n503$/);
    writeFileSync(webConfigFile, JSON.stringify(web));
    await eventually(async () => expect((await authorized('/metrics')).stdout).toMatch(/\n200$/));
    const log = agent.process.stderr();
    expect(log.match(/all requests are refused/g)).toHaveLength(1);
    expect(log).toContain(`${webConfigFile}:1:`);
    expectNoSecrets(log + (await authorized('/metrics')).stdout, at('renewed.key'));
    expect(await agent.end('SIGTERM')).toBe(0);
  });

  it('a user with certificate and password can pause and resume auto-cancel, and the journal records the user name', async () => {
    const probes = await freePort();
    const rule = { name: 'r', mode: 'plan', match: { label: { in: ['x'] } }, stuckWhen: { inProgressFor: '48h' } };
    const { authorized, agent } = await startProtected(
      { lifecycle: true, probesListen: `127.0.0.1:${probes}` },
      { autoCancel: { mode: 'plan', rules: [rule] } },
    );
    const post = (path: string, body: object) =>
      authorized(path, '--header', 'Content-Type: application/json', '--data', JSON.stringify(body));
    const command = '/api/v1/auto-cancel';
    expect((await post(`${command}/pause`, { reason: 'maintenance' })).stdout).toBe('{"accounts":["a"]}\n200');
    expect((await post(`${command}/resume`, { reason: 'over' })).stdout).toMatch(/"by":"prometheus".*\n200$/);
    expect((await post(`${command}/approve`, { action: '0123abcd' })).stdout).toBe(
      '{"error":"no action 0123abcd waits for approval"}\n409',
    );
    await eventually(async () => {
      const [journal = ''] = (await authorized('/api/v1/journal')).stdout.split('\n');
      expect(JSON.parse(journal)).toMatchObject([
        { step: 'paused', by: 'prometheus', reason: 'maintenance' },
        { step: 'resumed', by: 'prometheus', reason: 'over' },
      ]);
    });
    expect((await fetch(`http://127.0.0.1:${probes}/-/ready`)).status).toBe(200);
    expect((await fetch(`http://127.0.0.1:${probes}/metrics`)).status).toBe(404);
    expect(agent.process.stderr()).not.toContain('canary');
  });
});
