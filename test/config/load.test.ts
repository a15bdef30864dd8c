import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { formatError, loadConfig, parseConfig } from '../../src/config/load.ts';
import { Config } from '../../src/config/schema.ts';
import { afterThisTest } from '../support/client.ts';
import { faultText } from './fault-text.ts';

/** Returns the paths of all keys in nested objects, without lists. */
const keysIn = (value: unknown, path = ''): string[] =>
  typeof value !== 'object' || value === null || Array.isArray(value)
    ? []
    : Object.entries(value).flatMap(([key, each]) => [path + key, ...keysIn(each, `${path}${key}.`)]);

const ENV = { TOKEN: 'token-canary\n', DELIVERY_TOKEN: 'token-canary', TWO_LINES: 'token-canary\nx' };

function temporary(): string {
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-config-'));
  afterThisTest(async () => rmSync(folder, { recursive: true }));
  return folder;
}

describe('invalid configurations', () => {
  it.each(globSync('test/config/bad/*.yaml').sort())('reports the errors of %s', path => {
    const name = basename(path);
    const message = faultText(() => loadConfig(path, ENV)).replaceAll(path, name);
    expect(message).not.toContain('canary');
    expect(message).toMatchSnapshot();
  });

  it('loadConfig does not show the value of a secret that is not text', () => {
    const text = `
accounts: [{ name: a, baseUrl: 'https://a.example', token: 8675309, upstream: { proxy: 8675309 } }]
tracing: { headers: { x: 8675309 } }
heartbeat: { url: 8675309 }
alerts: { notifiers: [{ name: n, webhook: { url: 8675309, secret: 8675309 } }] }
`;
    const message = faultText(() => parseConfig(text, 'x.yaml', ENV));
    expect(message).toContain('x.yaml:2:60: accounts[0].token: must be');
    expect(message.match(/ put it in quotes$/gm)).toHaveLength(5);
    expect(message).not.toContain('8675309');
  });

  it('loadConfig reports a missing file', () =>
    expect(faultText(() => loadConfig('nowhere.yaml', ENV))).toBe('nowhere.yaml:1:1: does not exist'));
});

const PUBLIC = 'server: { public: true }\n';

describe('doubtful configurations', () => {
  it.each(globSync('test/config/doubtful/*.yaml').sort())('accepts %s with warnings', path => {
    const { warnings } = loadConfig(path, ENV, Date.UTC(2026, 0, 1));
    const text = warnings.map(formatError).join('\n').replaceAll(path, basename(path));
    expect(text).not.toContain('canary');
    expect(text).toMatchSnapshot();
  });

  const RULE = '{ name: r, when: { above: { metric: delivery_dlq_messages, value: 0 } } }';
  const NOTIFIERS = 'notifiers: [{ name: ops, alertmanager: { urls: ["https://am.example.com"] } }]';
  const CANCEL = 'rules: [{ name: r, match: { label: { in: [x] } }, notify: [ops] }]';
  const DISABLED = 'alerts.enabled: is false: no alert is evaluated or sent';
  const OFF = 'autoCancel.mode: is off: no rule is evaluated';
  it.each([
    [`alerts: { ${NOTIFIERS} }`, [DISABLED]],
    [`alerts: { enabled: false, ${NOTIFIERS} }`, [DISABLED]],
    [`alerts: { enabled: true, ${NOTIFIERS} }`, []],
    [`alerts: { rules: [${RULE}] }`, [DISABLED]],
    // For `rules print`.
    [`alerts: { enabled: false, rules: [${RULE}] }`, []],
    [`alerts: { ${NOTIFIERS} }\nautoCancel: { mode: plan, ${CANCEL} }`, []],
    [`alerts: { ${NOTIFIERS} }\nautoCancel: { ${CANCEL} }`, [OFF]],
    ['autoCancel: { mode: off, rules: [] }', []],
  ])('warns about exactly the settings that have no effect: %s', (text, expected) => {
    const account = 'accounts: [{ name: a, baseUrl: "https://a.example.com", token: { env: TOKEN } }]';
    const { warnings } = parseConfig(`${account}\n${text}\n${PUBLIC}`, 'x.yaml', ENV);
    expect(warnings.map(({ path, message }) => `${path}: ${message}`)).toEqual(expected);
  });
});

describe('valid configurations', () => {
  const minimal = 'accounts: [{ name: a, baseUrl: "https://delivery.example.com", token: { env: TOKEN } }]';

  it('a valid configuration needs only accounts with name, baseUrl and token', () => {
    const { config, warnings } = parseConfig(minimal, 'x.yaml', ENV);
    expect(warnings.map(({ path }) => path)).toEqual(['server.listen']);
    expect(config.server).toEqual({
      listen: '0.0.0.0:10922',
      public: false,
      probesListen: null,
      externalUrl: null,
      replicaUrl: null,
      lifecycle: false,
      maxConnections: 512,
      allowedHosts: [],
      webConfigFile: null,
    });
    expect(config.collect.flowControl).toEqual({
      enabled: true,
      every: 15_000,
      include: [],
      exclude: [],
      maxSeries: 1000,
      watch: [],
      watchEvery: 5000,
    });
    expect(config.accounts[0]?.budget).toEqual({
      requestsPerSecond: 5,
      burst: 10,
      concurrency: 4,
      requestsPerDay: 200_000,
    });
    expect(config.staleness).toEqual({ markAfter: 3, withdrawAfter: 20, withdrawAtMost: 1_800_000 });
  });

  it('a configuration has one hash of its settings and another hash of its files', () => {
    const load = (text: string) => parseConfig(text, 'x.yaml', ENV);
    const { hash, filesHash } = load(minimal);
    expect(hash).toMatch(/^[0-9a-f]{16}$/);
    expect(load(minimal)).toMatchObject({ hash, filesHash });
    expect(load(`${minimal}\n`).hash).toBe(hash);
    expect(load(`${minimal}\n`).filesHash).not.toBe(filesHash);
    for (const rest of ['log: { level: warn }', 'collect: { routes: [/a/:id] }', 'accountFiles: [none-*.yaml]']) {
      expect(load(`${minimal}\n${rest}`).hash, rest).not.toBe(hash);
    }
    expect(load(minimal.replace('TOKEN', 'DELIVERY_TOKEN')).hash).not.toBe(hash);
  });

  it('the hash of a configuration does not depend on secrets written in it', () => {
    const text = (secret: string) => `${minimal.replace('{ env: TOKEN }', secret)}
accountFiles: []
upstream: { proxy: 'http://user:${secret}@proxy.example' }
heartbeat: { url: 'https://beat.example/${secret}' }
tracing: { headers: { x-key: ${secret} } }
alerts:
  notifiers:
    - { name: a, alertmanager: { urls: ['https://am.example/${secret}'] } }
    - { name: b, webhook: { url: 'https://hook.example/${secret}', format: slack, secret: ${secret} } }
store: { kind: postgres, url: 'postgres://u:${secret}@h/d' }
`;
    const [one, other] = ['pin1', 'pin2'].map(secret => parseConfig(text(secret), 'x.yaml', ENV));
    expect(one?.hash).toBe(other?.hash);
    expect(one?.filesHash).not.toBe(other?.filesHash);
  });

  it('warns about a token written in the file, with its position but not its value', () => {
    const text = 'accounts:\n  - { name: a, baseUrl: http://127.0.0.1:1, token: token-canary }\n';
    const loaded = parseConfig(text + PUBLIC, 'x.yaml', {});
    expect(loaded.warnings.map(warning => formatError(warning))).toEqual([
      'x.yaml:2:52: accounts[0].token: the token is written in this file; { env: NAME } or { file: PATH } keep it out',
    ]);
    expect(JSON.stringify(loaded)).not.toContain('canary');
  });

  it('rejects a configuration if a token file is missing or contains no token', () => {
    const text = 'accounts:\n  - { name: a, baseUrl: http://127.0.0.1:1, token: { file: /nonexistent/token } }\n';
    expect(faultText(() => parseConfig(text, 'x.yaml', {}))).toBe(
      'x.yaml:2:52: accounts[0].token: /nonexistent/token does not exist',
    );
    const folder = temporary();
    const load = (content: string) => {
      writeFileSync(join(folder, 'token'), content);
      return parseConfig(text.replace('/nonexistent', folder) + PUBLIC, 'x.yaml', {});
    };
    expect(load('token-canary\n').warnings).toEqual([]);
    for (const content of ['', ' \n', 'two words', '\u0000']) {
      expect(faultText(() => load(content))).toBe(
        `x.yaml:2:52: accounts[0].token: ${folder}/token has no token (visible ASCII characters, without spaces)`,
      );
    }
  });

  it('a configuration contains each account’s collect, upstream and objectives with its overrides applied', () => {
    const text = `
objectives: { delivered: 0.9, onTimeWithin: 1m }
upstream: { timeout: 7s, proxy: http://user:proxy-canary@proxy.example:3128, noProxy: [a.example] }
collect: { flowControl: { every: 20s, include: [a, b] }, dlq: { every: 40s } }
accounts:
  - { name: a, baseUrl: http://127.0.0.1:1, token: { env: TOKEN } }
  - name: b
    baseUrl: http://127.0.0.1:1
    token: { env: TOKEN }
    upstream: { timeout: 9s, proxy: { env: TOKEN_PROXY } }
    objectives: { onTimeWithin: 2m }
    collect: { flowControl: { include: [c] }, events: { enabled: false } }
`;
    const { config } = parseConfig(text, 'x.yaml', { ...ENV, TOKEN_PROXY: 'http://127.0.0.1:2' });
    const [a, b] = config.accounts;
    expect(a?.collect).toEqual(config.collect);
    expect(a?.upstream).toEqual(config.upstream);
    expect(a?.objectives).toEqual(config.objectives);
    expect(b?.objectives).toEqual({ ...config.objectives, delivered: 0.9, onTimeWithin: 120_000 });
    expect(b?.collect).toEqual({
      ...config.collect,
      flowControl: { ...config.collect.flowControl, include: ['c'] },
      events: { ...config.collect.events, enabled: false },
    });
    expect(b?.upstream).toEqual({ ...config.upstream, timeout: 9000, proxy: { env: 'TOKEN_PROXY' } });
    expect(JSON.stringify(config)).not.toContain('canary');
  });

  it('a configuration includes accounts from other files, and errors name these files', () => {
    const load = (files: Record<string, string>, more = '') => {
      const folder = temporary();
      mkdirSync(join(folder, 'accounts.d'));
      for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, 'accounts.d', name), text);
      const text = `${minimal}\naccountFiles: ['accounts.d/*.yaml', 'none-*.yaml']\n${PUBLIC}${more}`;
      return { folder, load: () => parseConfig(text, join(folder, 'main.yaml'), ENV) };
    };
    const one = (name: string) => `- { name: ${name}, baseUrl: http://127.0.0.1:1/${name}, token: { env: TOKEN } }\n`;
    const good = load({ '2.yaml': one('c'), '1.yaml': one('b') });
    const { config, warnings, hash } = good.load();
    expect(config.accounts.map(({ name }) => name)).toEqual(['a', 'b', 'c']);
    expect(warnings.map(formatError)).toEqual([`${good.folder}/main.yaml:2:37: accountFiles[1]: matches no file`]);
    writeFileSync(join(good.folder, 'accounts.d', '1.yaml'), one('d'));
    expect(good.load().hash).not.toBe(hash);

    // A pattern may be absolute, and a file that two patterns match is included once.
    const folder = join(good.folder, 'accounts.d');
    const twice = `${minimal}\naccountFiles: [${folder}/*.yaml, ./accounts.d/1.yaml]`;
    const again = parseConfig(twice, join(good.folder, 'main.yaml'), ENV).config;
    expect(again.accounts.map(({ name }) => name)).toEqual(['a', 'd', 'c']);

    const wrong = load({
      '1.yaml': `${one('b')}- { name: e, baseUrl: ftp://x, token: { env: TOKEN }, colour: red }\n`,
      '2.yaml': one('a'),
    });
    const faults = faultText(wrong.load).replaceAll(`${wrong.folder}/accounts.d/`, '').split('\n');
    expect(faults).toEqual([
      '1.yaml:2:23: [1].baseUrl: must be an http or https address without user, query or fragment',
      expect.stringMatching(/^1\.yaml:2:\d+: \[1\]\.colour: unknown key; allowed here: name, /),
      '2.yaml:1:11: [0].name: must be unique; a already exists',
    ]);
    const unset = load({ '1.yaml': one('b').replace('TOKEN', 'UNSET'), '2.yaml': one('c').replace('TOKEN', 'UNSET') });
    expect(faultText(unset.load).replaceAll(`${unset.folder}/accounts.d/`, '').split('\n')).toEqual([
      '1.yaml:1:52: [0].token: the environment variable UNSET is not set',
      '2.yaml:1:52: [0].token: the environment variable UNSET is not set',
    ]);
    const notLists = load({ '1.yaml': 'accounts: []', '2.yaml': 'a: [' });
    expect(faultText(notLists.load).replaceAll(`${notLists.folder}/accounts.d/`, '')).toMatch(
      /^1\.yaml:1:1: must be a list of accounts\n2\.yaml:1:\d+: a { or \[ opened above is not closed$/,
    );
  });

  describe('small budgets', () => {
    const warnings = (rest: string) =>
      parseConfig(`${minimal.replace('token:', `${rest}, token:`)}\n${PUBLIC}`, 'x.yaml', ENV).warnings.map(
        formatError,
      );
    const warning = (least: number, allowed: number) =>
      `x.yaml:1:90: accounts[0].budget.requestsPerDay: reading takes at least ${least} requests a day, even with no new data and one page per list, but the budget allows ${allowed} for reading: rounds will wait, and data will be older than configured`;
    const leastOf = (rest: string) =>
      Number(/at least (\d+)/.exec(warnings(`budget: { requestsPerDay: 1 }, collect: ${rest}`)[0] ?? '')?.[1]);

    it('warns if a daily budget is too small for reading after a tenth is reserved for actions', () => {
      // Flow-control keys and the tail of the log every 15 s, new dead letters every 30 s, and a walk of the queue
      // every 10 min.
      const least = leastOf('{}');
      expect(least).toBeGreaterThanOrEqual(2 * 5760 + 2880 + 144);
      expect(warnings('budget: { requestsPerDay: 10000 }')).toEqual([warning(least, 9000)]);
      const enough = Math.ceil(least / 0.9);
      expect(warnings(`budget: { requestsPerDay: ${enough} }`)).toEqual([]);
      expect(warnings(`budget: { requestsPerDay: ${enough - 1} }`)).toEqual([warning(least, least - 1)]);
    });

    it('warns if requestsPerSecond is too low for reading', () => {
      expect(warnings('budget: { requestsPerSecond: 0.1 }')).toEqual([
        expect.stringContaining('but the budget allows 8640 for reading'),
      ]);
    });

    it('counts complete walks of the queue and of each filter when it checks the budget', () => {
      const filters = Array.from({ length: 50 }, (_, index) => `{ name: f${index}, match: { queueName: q${index} } }`);
      const few = leastOf('{ dlq: { rescanEvery: 10m } }');
      // A walk every 10 minutes is 144 a day.
      expect(leastOf(`{ dlq: { rescanEvery: 10m, filters: [${filters}] } }`) - few).toBe(144 * 50);
      expect(leastOf('{ dlq: { rescanEvery: 1m } }') - few).toBeGreaterThanOrEqual(1440 - 144);
    });
  });

  it('config.example.yaml contains every key', () => {
    const example = parse(readFileSync('config.example.yaml', 'utf8'));
    const defaults = Config.parse({ accounts: [{ name: 'a', baseUrl: 'http://127.0.0.1', token: 'x' }] });
    const overrides = { collect: null, upstream: null, objectives: null, token: null };
    const all = { ...defaults, accounts: { ...defaults.accounts[0], ...overrides } };
    const written = keysIn({ ...example, accounts: example.accounts[0] });
    expect(keysIn(all).filter(key => !written.includes(key))).toEqual([]);
  });

  it('config.example.yaml is valid and shows every section with its defaults', () => {
    const { config } = loadConfig('config.example.yaml', ENV);
    const defaults = Config.parse({
      accounts: config.accounts.map(({ name, baseUrl }) => ({ name, baseUrl, token: 'x' })),
    });
    const withoutExamples = {
      ...config,
      accounts: config.accounts.map((account, index) => ({
        ...account,
        token: defaults.accounts[index]?.token,
        collect: defaults.collect,
      })),
      collect: { ...config.collect, dlq: { ...(config.collect.dlq as object), filters: [] } },
    };
    expect(withoutExamples).toEqual(defaults);
  });
});
