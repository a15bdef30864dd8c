import { describe, expect, it } from 'vitest';
import { formatError, parseConfig } from '../../src/config/load.ts';

const warningsOf = (config: object) =>
  parseConfig(JSON.stringify(config, null, 2), 'x.yaml', { T: 'x' }).warnings.map(formatError);
const account = (more: object) => ({
  accounts: [{ name: 'a', baseUrl: 'https://h.example', token: { env: 'T' }, ...more }],
  server: { public: true },
});

describe('http to another host', () => {
  it('http to another host causes a warning for each secret sent there, with its position and without the URL', () => {
    const password = { env: 'T' };
    expect(
      warningsOf({
        ...account({
          baseUrl: 'http://h.example',
          regionalBaseUrl: 'http://{region}.h.example',
          region: 'eu',
          management: { baseUrl: 'http://10.0.0.1', username: 'u', password },
        }),
        alerts: {
          enabled: true,
          notifiers: [
            { name: 'm', alertmanager: { urls: ['http://127.0.0.1:9093', 'http://am.example:9093'] } },
            { name: 'w', webhook: { url: 'http://hooks.example/T-canary', secret: { env: 'T' } } },
          ],
        },
        tracing: { enabled: true, endpoint: 'http://otlp.example:4318', headers: { authorization: { env: 'T' } } },
      }).map(line => line.replace(/^x\.yaml:\d+:\d+: /, '')),
    ).toEqual([
      'accounts[0].baseUrl: is http to another host: it sends the token unencrypted; use https',
      'accounts[0].regionalBaseUrl: is http to another host: it sends the token unencrypted; use https',
      'accounts[0].management.baseUrl: is http to another host: it sends user name and password unencrypted; use https',
      'alerts.notifiers[0].alertmanager.urls[1]: is http to another host: it sends every alert unencrypted; use https',
      'alerts.notifiers[1].webhook.url: is http to another host: it sends every alert unencrypted; use https',
      'tracing.endpoint: is http to another host: it sends tracing.headers unencrypted; use https',
    ]);
  });

  it('the warning about http to another host contains line and column', () =>
    expect(warningsOf(account({ baseUrl: 'http://h.example' }))).toEqual([
      'x.yaml:5:18: accounts[0].baseUrl: is http to another host: it sends the token unencrypted; use https',
    ]));

  it.each([
    'http://127.0.0.1:1',
    'http://127.1.2.3',
    'http://localhost:8080',
    'http://emulator.localhost',
    'http://[::1]:1',
    'http://[0:0::1]',
    'https://h.example',
  ])('the base URL %s causes no warning', baseUrl => expect(warningsOf(account({ baseUrl }))).toEqual([]));

  it.each(['http://localhost.example', 'http://127.0.0.1.example', 'http://[::2]', 'http://0.0.0.0', 'HTTP://h'])(
    'the base URL %s causes a warning',
    baseUrl => expect(warningsOf(account({ baseUrl }))).toHaveLength(1),
  );

  it('an http endpoint for traces causes no warning if no headers are configured', () =>
    expect(warningsOf({ ...account({}), tracing: { enabled: true, endpoint: 'http://otlp.example:4318' } })).toEqual(
      [],
    ));
});
