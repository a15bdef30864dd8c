import fc from 'fast-check';
import { expect, it } from 'vitest';
import { LineCounter, parseDocument, stringify, visit } from 'yaml';
import { ConfigError, parseConfig } from '../../src/config/load.ts';
import { runs } from '../support/runs.ts';
import { faultText } from './fault-text.ts';

/** A fault: the value to set at a path of the configuration; undefined deletes the path. */
type Plant = readonly [what: string, path: string, value: unknown];

const good = () => ({
  server: { listen: '127.0.0.1:1' },
  accounts: ['a', 'b', 'c'].map(name => ({
    name,
    baseUrl: `https://${name}.example.com`,
    token: { env: 'TOKEN' },
    budget: { burst: 5 },
    collect: { dlq: { filters: [{ name: 'payments', match: { queueName: 'p' } }] }, events: {} },
  })),
  alerts: {
    enabled: true,
    rules: [
      {
        name: 'Payments',
        when: { above: { metric: 'delivery_dlq_filter_messages', labels: { filter: 'payments' }, value: 0 } },
      },
      { name: 'Stale', when: { stale: { collector: 'dlq' } } },
      { name: 'Blind', when: { stale: { collector: 'events' } } },
      { name: 'Blinder', when: { stale: { collector: 'dlq', round: 'full' } } },
    ],
    silences: [
      { match: { alertname: 'Stale' }, until: '2999-01-01T00:00:00Z', reason: 'x' },
      { match: { account: 'a' }, windows: [{ cron: '0 2 * * 6', for: '4h' }], reason: 'x' },
    ],
    notifiers: [{ name: 'ops', webhook: { url: 'https://hooks.example.com', secret: { env: 'TOKEN' } } }],
  },
  schedules: [{ name: 'nightly', accounts: ['a'], match: { label: 'x' }, cron: '0 2 * * *' }],
  heartbeat: { url: { env: 'TOKEN_URL' } },
  autoCancel: {
    mode: 'enforce',
    pauseWhileAlerts: ['Stale'],
    rules: [
      {
        name: 'r',
        mode: 'enforce',
        expires: '2027-01-01',
        match: { label: { in: ['x'] } },
        accounts: ['a'],
        notify: ['ops'],
      },
      { name: 's', match: { url: { prefix: ['https://'] } }, stuckWhen: { idleFor: '1h' } },
    ],
  },
});

/** Faults for each stage of validation. */
const PLANTS: readonly Plant[] = [
  ['an unknown key', 'server.lisen', 1],
  ['a wrong type', 'server.listen', 1],
  ['an unknown section', 'servr', {}],
  ['a wrong type in an account', 'accounts.0.budget.burst', 'many'],
  ['an unknown key in an account', 'accounts.0.colour', 'red'],
  ['an invalid address', 'accounts.1.baseUrl', 'nowhere'],
  ['a missing address', 'accounts.2.baseUrl', undefined],
  ['a token that is not set', 'accounts.1.token', { env: 'NOT_SET' }],
  ['a token from two sources', 'accounts.2.token', { env: 'TOKEN', file: 'x' }],
  ['an event overlap that is too long', 'accounts.1.collect.events.overlap', '9h'],
  ['an invalid event interval', 'accounts.1.collect.events.every', 'soon'],
  ['an objective without an error budget', 'accounts.2.objectives', { delivered: 1 }],
  ['an on-time target longer than its window', 'objectives', { onTimeWithin: '2d', window: '1d' }],
  ['a schedule without a name', 'schedules.0.name', undefined],
  ['a schedule that never occurs', 'schedules.0.cron', '0 2 31 2 *'],
  ['a schedule of an unknown account', 'schedules.0.accounts', ['nowhere']],
  ['a schedule without criteria', 'schedules.0.match', {}],
  ['a filter without a name', 'accounts.0.collect.dlq.filters.1', { match: { url: 'x' } }],
  ['an unknown label value', 'alerts.rules.0.when.above.labels.filter', 'paymnts'],
  ['an unknown account in an alert', 'alerts.rules.0.when.above.labels.account', 'nobody'],
  ['an invalid duration in an alert', 'alerts.rules.0.for', 'soon'],
  ['an unknown collector', 'alerts.rules.1.when.stale.collector', 'queue'],
  ['an alert without a condition', 'alerts.rules.2.when', {}],
  ['a duplicate alert', 'alerts.rules.3.name', 'Stale'],
  ['a secret that is not set', 'alerts.notifiers.0.webhook.secret', { env: 'NOT_SET' }],
  ['an invalid webhook', 'alerts.notifiers.0.webhook.url', 'nowhere'],
  ['an unknown format', 'alerts.notifiers.0.webhook.format', 'other'],
  ['a grouping by an invalid label', 'alerts.notifiers.0.webhook.groupBy', ['a b']],
  ['a silence of an unknown alert', 'alerts.silences.0.match.alertname', 'Missing'],
  ['a silence without an end', 'alerts.silences.0.until', undefined],
  ['a silence without a reason', 'alerts.silences.1.reason', undefined],
  ['a window that never opens', 'alerts.silences.1.windows.0.cron', '0 0 31 2 *'],
  ['an invalid heartbeat', 'heartbeat.url', 'nowhere'],
  ['an invalid heartbeat interval', 'heartbeat.every', 'often'],
  ['an unknown alert in pauseWhileAlerts', 'autoCancel.pauseWhileAlerts.1', 'Missing'],
  ['an unknown account in a rule', 'autoCancel.rules.0.accounts.1', 'nobody'],
  ['an unknown notifier', 'autoCancel.rules.0.notify.1', 'nowhere'],
  ['an invalid pattern', 'autoCancel.rules.0.match.label.matches', '('],
  ['a rule without an expiry', 'autoCancel.rules.0.expires', undefined],
  ['an inProgressFor that healthy callbacks may reach', 'autoCancel.rules.0.stuckWhen', { inProgressFor: '1h' }],
  ['an unknown key in a rule', 'autoCancel.rules.1.colour', 'red'],
  ['a duplicate rule name', 'autoCancel.rules.1.name', 'r'],
  ['unknown evidence', 'autoCancel.rules.1.evidence', 'guess'],
  ['an invalid number of retries', 'autoCancel.rules.1.stuckWhen.assumeMaxRetries', 'many'],
  ['an invalid duration in a rule', 'autoCancel.rules.1.grace', 'soon'],
];

function errorsOf(text: string): ConfigError['errors'] {
  try {
    parseConfig(text, 'x.yaml', { TOKEN: 't', TOKEN_URL: 'https://hc.example.com/x' }, 0);
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.errors;
  }
}

function faultsOf(plants: readonly Plant[]): string[] {
  const config = good();
  for (const [, path, value] of plants) {
    const keys = path.split('.');
    const last = keys.pop() ?? '';
    const parent = keys.reduce<object>((part, key) => Reflect.get(part, key), config);
    if (value === undefined) Reflect.deleteProperty(parent, last);
    else Reflect.set(parent, last, value);
  }
  // The names listed in a message depend on other faults.
  return errorsOf(JSON.stringify(config)).map(
    ({ path, message }) => `${path}: ${message.replace(/; there are: .*/, '')}`,
  );
}

it('parseConfig reports no errors in a valid configuration', () => expect(faultsOf([])).toEqual([]));

it.each(PLANTS)('parseConfig reports exactly one error for %s', (...plant) =>
  expect(faultsOf([plant])).toHaveLength(1),
);

it('parseConfig reports only the errors of the first stage that fails, in the order of the file', () => {
  const parse = (text: string) => () => parseConfig(text, 'x.yaml', {}, 0);
  const across = `accounts:
  - { name: a, baseUrl: 'https://a.example.com', token: { env: NOT_SET } }
schedules:
  - { name: nightly, accounts: [nowhere], match: { label: x }, cron: 0 2 * * * }
`;
  const sections = `server: { lisen: '127.0.0.1:1' }\n${across}upstream: { timeout: soon, proxy: '$PROXY' }\n`;
  const files = `${sections}log: { level: info }\nlog: { level: *debug }\n`;
  expect(faultText(parse(files))).toBe(
    'x.yaml:8:1: duplicate key\nx.yaml:8:15: aliases are not allowed; put text that begins with * in quotes',
  );
  expect(faultText(parse(sections)).split('\n')).toEqual([
    expect.stringMatching(/^x\.yaml:1:11: server\.lisen: unknown key; allowed here: listen, /),
    expect.stringMatching(/^x\.yaml:6:22: upstream\.timeout: must be a duration/),
    'x.yaml:6:35: upstream.proxy: variables are not expanded here; write a secret as { env: PROXY }, anything else as the value itself',
  ]);
  expect(faultText(parse(across))).toBe(
    'x.yaml:2:57: accounts[0].token: the environment variable NOT_SET is not set\n' +
      'x.yaml:4:33: schedules[0].accounts[0]: there is no account called nowhere; there are: a',
  );
});

/** Values and keys that YAML reads as numbers, booleans or null. */
const BARE = [
  '0123',
  '1.0',
  '2.10',
  '1e3',
  '0x1F',
  '0o17',
  '+5',
  '.5',
  '-0',
  '12345678901234567890',
  'true',
  'False',
  '.inf',
];

it('parseConfig reports the position of every unquoted text or key that YAML reads as a number or boolean', () => {
  const text = stringify({ ...good(), tracing: { headers: { 'x-key': 'y' } } }, { lineWidth: 0 });
  const lines = new LineCounter();
  const spans: (readonly [isKey: boolean, from: number, to: number])[] = [];
  visit(parseDocument(text, { lineCounter: lines }), {
    Scalar(key, { value, range }) {
      if (typeof value === 'string' && range) spans.push([key === 'key', range[0], range[1]]);
    },
  });
  fc.assert(
    fc.property(fc.constantFrom(...spans), fc.constantFrom(...BARE), ([isKey, from, to], bare) => {
      const changed = `${text.slice(0, from)}${bare}${text.slice(to)}`;
      const errors = errorsOf(changed);
      const { line, col } = lines.linePos(from);
      const messages = errors.filter(error => error.line === line && error.column === col).map(each => each.message);
      expect(messages).not.toEqual([]);
      const message = messages.join();
      if (isKey || /\btext\b/.test(message)) expect(message).toContain('put it in quotes');
    }),
    { numRuns: runs(150) },
  );
});

it.each(['__proto__', '__defineGetter__', 'constructor', 'toString'])(
  'parseConfig reports the key %s as unknown, like any other unknown key',
  key => {
    const text = `${JSON.stringify(key)}: 1\naccounts: [{ name: a, baseUrl: 'https://a.example', token: { env: TOKEN } }]`;
    const check = () => parseConfig(text, 'x.yaml', { TOKEN: 't' }, 0);
    expect(check).toThrow(ConfigError);
    expect(check).toThrow(`x.yaml:1:1: ${key}: unknown key; allowed here: server, `);
  },
);
