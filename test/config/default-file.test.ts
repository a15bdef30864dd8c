import { describe, expect, it } from 'vitest';
import { defaultFile, ENVIRONMENT, environmentText } from '../../src/config/default-file.ts';
import { ConfigError } from '../../src/config/errors.ts';
import { parseConfig } from '../../src/config/load.ts';

const SYSTEM = '/etc/delivery-watch/config.yaml';
const LOCAL = './config.yaml';
const ACCESS = { DELIVERY_URL: 'https://delivery.example.com', DELIVERY_TOKEN: 'token' };

describe('the configuration of a command without --config', () => {
  it.each<[string, Record<string, string>, string[], string | undefined]>([
    ['DELIVERY_WATCH_CONFIG first', { DELIVERY_WATCH_CONFIG: 'own.yaml', ...ACCESS }, [SYSTEM, LOCAL], 'own.yaml'],
    ['then the system’s file', ACCESS, [SYSTEM, LOCAL], SYSTEM],
    ['then the file in the working directory', ACCESS, [LOCAL], LOCAL],
    ['then the environment', ACCESS, [], ENVIRONMENT],
    ['the environment with the names of the official clients', { QSTASH_TOKEN: 'token' }, [], ENVIRONMENT],
    ['nothing if all variables are empty', { DELIVERY_WATCH_CONFIG: ' ', DELIVERY_URL: '' }, [], undefined],
    ['nothing', {}, [], undefined],
  ])('a command uses %s', (_, env, files, expected) => {
    expect(defaultFile(env, file => files.includes(file))).toBe(expected);
  });

  const configOf = (env: Record<string, string>) => parseConfig(environmentText(env), ENVIRONMENT, env).config;

  it('the environment configures one account and the folder for data', () => {
    const { accounts, store, autoCancel } = configOf({ ...ACCESS, DELIVERY_WATCH_DATA: '/var/lib/dw' });
    expect(accounts).toMatchObject([
      { name: 'default', baseUrl: ACCESS.DELIVERY_URL, token: { env: 'DELIVERY_TOKEN' } },
    ]);
    expect([store.path, autoCancel.stopFile]).toEqual(['/var/lib/dw/delivery-watch.db', '/var/lib/dw/STOP']);
  });

  it.each([
    [{ QSTASH_URL: 'https://q.example.com', QSTASH_TOKEN: 'q' }, 'https://q.example.com', 'QSTASH_TOKEN'],
    [{ QSTASH_URL: 'https://q.example.com', QSTASH_TOKEN: 'q', ...ACCESS }, ACCESS.DELIVERY_URL, 'DELIVERY_TOKEN'],
    [{ QSTASH_URL: 'https://q.example.com', DELIVERY_TOKEN: 'd' }, 'https://q.example.com', 'DELIVERY_TOKEN'],
    [{ ...ACCESS, DELIVERY_URL: ' https://delivery.example.com ' }, ACCESS.DELIVERY_URL, 'DELIVERY_TOKEN'],
  ])('the environment %j selects the address %s and the token in %s', (env, baseUrl, token) => {
    expect(configOf(env).accounts).toMatchObject([{ baseUrl, token: { env: token } }]);
  });

  it.each([
    [{ DELIVERY_TOKEN: 'token-canary' }, 'the environment variable DELIVERY_URL or QSTASH_URL is not set'],
    [{ QSTASH_URL: 'https://q.example.com' }, 'the environment variable DELIVERY_TOKEN or QSTASH_TOKEN is not set'],
    [{ ...ACCESS, DELIVERY_URL: 'example' }, 'accounts[0].baseUrl: must be an http or https address'],
    [{ ...ACCESS, DELIVERY_URL: 'https://a"\nb: c' }, 'accounts[0].baseUrl: must be an http or https address'],
    [{ ...ACCESS, DELIVERY_TOKEN: 'token canary' }, 'accounts[0].token'],
  ])('the environment %j is refused with the reason', (env, reason) => {
    let error: unknown;
    try {
      configOf(env);
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(ConfigError);
    expect(String(error)).toContain(reason);
    expect(String(error)).not.toContain('canary');
  });
});
