import { globSync } from 'node:fs';
import { basename } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ConfigError, formatFault, loadConfig, parseConfig } from '../../src/config/load.ts';
import { Config } from '../../src/config/schema.ts';

const ENV = { TOKEN: 'token-canary\n', DELIVERY_TOKEN: 'token-canary', TWO_LINES: 'token-canary\nx' };

function faultsOf(load: () => unknown): string {
  try {
    load();
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as Error).message;
  }
  throw new Error('the configuration was taken for good');
}

describe('bad configurations, each named for its fault', () => {
  it.each(globSync('test/config/bad/*.yaml').sort())('%s', path => {
    const name = basename(path);
    const message = faultsOf(() => loadConfig(path, ENV)).replaceAll(path, name);
    expect(message).not.toContain('canary');
    expect(message).toMatchSnapshot();
  });

  it('a file that is not there', () =>
    expect(faultsOf(() => loadConfig('nowhere.yaml', ENV))).toBe("nowhere.yaml:1:1: can't be read: ENOENT"));
});

describe('good configurations', () => {
  const minimal = 'accounts: [{ name: a, baseUrl: "https://delivery.example.com", token: { env: TOKEN } }]';

  it('need only accounts with name, baseUrl and token', () => {
    const { config, warnings } = parseConfig(minimal, 'x.yaml', ENV);
    expect(warnings).toEqual([]);
    expect(config.server).toEqual({ listen: '0.0.0.0:10922', externalUrl: null });
    expect(config.collect.flowControl).toEqual({
      enabled: true,
      every: 15_000,
      include: [],
      exclude: [],
      maxSeries: 1000,
    });
    expect(config.accounts[0]?.budget).toEqual({
      requestsPerSecond: 5,
      burst: 10,
      concurrency: 4,
      requestsPerDay: 200_000,
    });
    expect(config.staleness).toEqual({ markAfter: 3, withdrawAfter: 20, withdrawAtMost: 1_800_000 });
  });

  it('have a digest that changes with the text', () => {
    const hash = (text: string) => parseConfig(text, 'x.yaml', ENV).hash;
    expect(hash(minimal)).toMatch(/^[0-9a-f]{16}$/);
    expect(hash(minimal)).toBe(hash(minimal));
    expect(hash(`${minimal}\n`)).not.toBe(hash(minimal));
  });

  it('warn of a token in the file, with its place, and never print it', () => {
    const text = 'accounts:\n  - { name: a, baseUrl: http://127.0.0.1:1, token: token-canary }\n';
    const loaded = parseConfig(text, 'x.yaml', {});
    expect(loaded.warnings.map(warning => formatFault('x.yaml', warning))).toEqual([
      'x.yaml:2:52: accounts[0].token: the token stands in the file; { env: NAME } or { file: PATH } keep it out',
    ]);
    expect(JSON.stringify(loaded)).not.toContain('canary');
  });

  it('warn of a token file that is not there', () => {
    const text = 'accounts:\n  - { name: a, baseUrl: http://127.0.0.1:1, token: { file: /nonexistent/token } }\n';
    expect(parseConfig(text, 'x.yaml', {}).warnings.map(warning => formatFault('x.yaml', warning))).toEqual([
      "x.yaml:2:52: accounts[0].token: /nonexistent/token can't be read now",
    ]);
    const there = text.replace('/nonexistent/token', 'package.json');
    expect(parseConfig(there, 'x.yaml', {}).warnings).toEqual([]);
  });

  it('config.example.yaml is one, and shows every section with its default', () => {
    const { config } = loadConfig('config.example.yaml', ENV);
    const defaults = Config.parse({
      accounts: config.accounts.map(({ name, baseUrl }) => ({ name, baseUrl, token: 'x' })),
    });
    const withoutExamples = {
      ...config,
      accounts: defaults.accounts,
      collect: { ...config.collect, dlq: { ...(config.collect.dlq as object), filters: [] } },
    };
    expect(withoutExamples).toEqual(defaults);
  });
});
