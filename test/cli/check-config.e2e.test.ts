import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { runCli } from '../support/cli.ts';
import { newFolder } from '../support/folder.ts';

const account = {
  name: 'a',
  baseUrl: 'https://a.example.com',
  token: { env: 'NOT_SET' },
  actionToken: { file: '/nonexistent/token' },
  management: {
    baseUrl: 'https://account.example.com',
    username: 'ops@example.com',
    password: { file: '/nonexistent/password' },
  },
  upstream: { proxy: { env: 'NOT_SET_EITHER' }, caFile: '/nonexistent/ca.pem' },
};
const rule = { name: 'r', mode: 'enforce', expires: '2999-01-01', match: { label: { in: ['x'] } } };
const withoutSecrets = {
  server: { webConfigFile: '/nonexistent/web.yaml', replicaUrl: { env: 'NOT_SET' } },
  store: { kind: 'postgres', url: { env: 'NOT_SET' } },
  accounts: [account],
  tracing: { enabled: true, headers: { authorization: { env: 'NOT_SET' } } },
  alerts: {
    enabled: true,
    notifiers: [
      { name: 'hook', webhook: { url: { env: 'NOT_SET' }, secret: { file: '/nonexistent/key' } } },
      { name: 'pd', webhook: { format: 'pagerduty', secret: { env: 'NOT_SET' } } },
    ],
  },
  heartbeat: { url: { file: '/nonexistent/heartbeat' } },
  autoCancel: { mode: 'enforce', rules: [rule] },
};

function configFile(config: object): string {
  const file = join(newFolder(), 'config.yaml');
  writeFileSync(file, JSON.stringify(config));
  return file;
}

describe('checks without secrets', () => {
  it('check-config --no-secrets accepts secrets with a missing environment variable or file', async () => {
    const file = configFile(withoutSecrets);
    const strict = await runCli(['check-config', file]);
    expect(strict.code).toBe(2);
    expect(
      strict.stderr.match(/NOT_SET is not set|NOT_SET_EITHER is not set|can't be read|does not exist/g),
    ).toHaveLength(13);
    const { code, stdout, stderr } = await runCli(['check-config', file, '--no-secrets'], {
      OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
    });
    expect(stderr).toBe('');
    expect(stdout).toBe(`${file} is valid: 1 account (a); not checked: environment variables, secrets, certificates\n`);
    expect(code).toBe(0);
  });

  it('check-config --no-secrets still reports all other errors and warnings', async () => {
    const config = {
      ...withoutSecrets,
      accounts: [{ ...account, token: 'canary', baseUrl: 'https://a.example.com/v2' }],
      collect: { dlq: { every: '1ms' } },
    };
    const unknown = await runCli(['check-config', configFile({ ...config, colour: 'red' }), '--no-secrets']);
    expect(unknown.code).toBe(2);
    expect(unknown.stderr).toContain('colour: unknown key');
    expect(unknown.stderr).not.toContain('canary');
    const { code, stderr } = await runCli(['check-config', configFile(config), '--no-secrets']);
    expect(code).toBe(2);
    expect(stderr).toContain('collect.dlq.every: must be at least 10ms');
    expect(stderr).toContain('accounts[0].token: the token is written in this file');
    expect(stderr).toContain('accounts[0].baseUrl: ends in /v2');
    expect(stderr).not.toContain('canary');
  });
});
