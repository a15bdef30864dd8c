import { expect, it } from 'vitest';
import { formatError, parseConfig } from '../../src/config/load.ts';

const ENV = { TOKEN: 'token-canary', ACTION_TOKEN: 'action-canary' };
const ACCOUNT = 'accounts: [{ name: production, baseUrl: "http://127.0.0.1:1", token: { env: TOKEN } }]\n';
const PUBLIC = 'server: { public: true }\n';
const load = (autoCancel: string, accounts = ACCOUNT) =>
  parseConfig(`${accounts}autoCancel:\n${autoCancel}\n${PUBLIC}`, 'x.yaml', ENV);
const HOUR = 3_600_000;

it('auto-cancel is off and has no rules by default', () => {
  const { config, warnings } = parseConfig(ACCOUNT + PUBLIC, 'x.yaml', ENV);
  expect(config.autoCancel).toEqual({
    mode: 'off',
    stopFile: './data/STOP',
    limits: { perRun: 5, perHour: 20, perDay: 50, spacing: 2000 },
    breaker: {
      candidates: { max: 25, percent: 30, minPopulation: 10 },
      errors: { max: 3, within: 900_000 },
      lostRaces: { percent: 50, ofLast: 10 },
    },
    pauseWhileAlerts: [],
    idFrom: 'dlqId',
    rules: [],
  });
  expect(config.accounts[0]?.actionToken).toBeNull();
  expect(warnings).toEqual([]);
});

it('parses every key of a rule with reported evidence', () => {
  const { config } = load(`
  rules:
    - name: nightly-callbacks-idle
      mode: enforce
      expires: 2027-06-30
      accounts: [production]
      match: { workflowUrl: { prefix: ['https://api.example.com/jobs/'] }, label: { in: [nightly] } }
      except: { label: { in: [do-not-cancel] } }
      evidence: reported
      stuckWhen: { inProgressFor: 48h, snapshots: 8, maxGap: 10m, pastRetryWindow: 1.5, assumeMaxRetries: 5, assumeTimeout: 15m, idleFor: 1h }
      grace: 30m
      limits: { perRun: 2, perHour: 6 }
      cooldown: { perUrl: 10m }
      windows:
        allow: [{ cron: '0 8 * * 1-5', for: 9h, tz: Europe/Amsterdam }]
        deny: [{ from: '2026-12-20T00:00:00Z', to: '2027-01-02T00:00:00+01:00', reason: freeze }]
`);
  expect(config.autoCancel.rules).toEqual([
    {
      name: 'nightly-callbacks-idle',
      mode: 'enforce',
      expires: Date.parse('2027-07-01T00:00:00Z'),
      accounts: ['production'],
      match: { workflowUrl: { prefix: ['https://api.example.com/jobs/'] }, label: { in: ['nightly'] } },
      except: { label: { in: ['do-not-cancel'] } },
      evidence: 'reported',
      acceptUnverified: false,
      stuckWhen: {
        inProgressFor: 48 * HOUR,
        snapshots: 8,
        maxGap: HOUR / 6,
        pastRetryWindow: 1.5,
        assumeMaxRetries: 5,
        assumeTimeout: HOUR / 4,
        idleFor: HOUR,
      },
      grace: HOUR / 2,
      limits: { perRun: 2, perHour: 6 },
      cooldown: { perUrl: HOUR / 6 },
      windows: {
        allow: [{ cron: '0 8 * * 1-5', for: 9 * HOUR, tz: 'Europe/Amsterdam' }],
        deny: [{ from: Date.UTC(2026, 11, 20), to: Date.UTC(2027, 0, 1, 23), reason: 'freeze' }],
      },
      notify: [],
      recheckAfter: 24 * HOUR,
    },
  ]);
});

it('parses a blind rule, a time in `expires`, and statuses as numbers or text', () => {
  const { config } = load(`
  rules:
    - name: old-and-unreported
      mode: enforce
      expires: '2027-06-30T12:00:00+02:00'
      match: { url: { prefix: ['https://api.example.com/'] }, responseStatus: { in: [500, '503'] } }
      evidence: blind
      acceptUnverified: true
      stuckWhen: { seenFor: 72h }
      grace: 0s
`);
  expect(config.autoCancel.rules[0]).toMatchObject({
    expires: Date.UTC(2027, 5, 30, 10),
    match: { responseStatus: { in: ['500', '503'] } },
    stuckWhen: { seenFor: 72 * HOUR, pastRetryWindow: 1.5, assumeMaxRetries: 5, assumeTimeout: HOUR / 4 },
    grace: 0,
    accounts: null,
  });
});

it('inProgressFor must exceed the total time of all retries and attempts', () => {
  const rule = (stuckWhen: string) =>
    load(`  rules: [{ name: r, match: { label: { in: [x] } }, stuckWhen: ${stuckWhen} }]`);
  expect(() => rule('{ inProgressFor: 33h }')).not.toThrow();
  // 31.1 h: longer than all waits between retries, shorter than waits and attempts together.
  expect(() => rule('{ inProgressFor: 1866m }')).toThrow('must be at least 33h');
  expect(() => rule('{ inProgressFor: 32h }')).toThrow('is 32h and must be at least 33h');
  expect(() => rule('{ inProgressFor: 31h, assumeTimeout: 1m }')).not.toThrow();
  expect(() => rule('{ inProgressFor: 93m, assumeMaxRetries: 3 }')).not.toThrow();
  expect(() => rule('{ inProgressFor: 15s, assumeMaxRetries: 1, assumeTimeout: 1s }')).not.toThrow();
  expect(() => rule('{ inProgressFor: 14s, assumeMaxRetries: 1, assumeTimeout: 1s }')).toThrow('must be at least 15s');
});

const acting = (mode: string) => `
  mode: ${mode}
  rules: [{ name: r, mode: approve, match: { label: { in: [x] } }, accounts: [a] }]
`;
const account = (name: string, actionToken = '') =>
  `{ name: ${name}, baseUrl: "http://127.0.0.1:1/${name}", token: { env: TOKEN }${actionToken} }`;

it('warns, except in mode plan, if cancels would use the reading token because actionToken is not set', () => {
  const accounts = `accounts: [${account('a')}, ${account('b')}]\n`;
  expect(load(acting('enforce'), accounts).warnings.map(formatError)).toEqual([
    'x.yaml:1:12: accounts[0].actionToken: is not set: auto-cancel uses `token` to cancel',
  ]);
  expect(load(acting('plan'), accounts).warnings).toEqual([]);
});

it('accepts names and kinds of built-in alerts in pauseWhileAlerts if these alerts are enabled', () => {
  const paused = (names: string, builtin: string) => {
    const alerts = `alerts: { enabled: true, builtin: ${builtin} }\n`;
    return load(`  pauseWhileAlerts: ${names}`, ACCOUNT + alerts).config.autoCancel.pauseWhileAlerts;
  };
  expect(paused('[DeliveryBlind, data_stale]', '{}')).toEqual(['DeliveryBlind', 'data_stale']);
  expect(() => paused('[data_stale]', '{ disable: [data_stale] }')).toThrow('there is no alert called data_stale');
  expect(() => paused('[dlq_old]', '{}')).toThrow('there is no alert called dlq_old');
  expect(paused('[dlq_old]', '{ enable: [dlq_old] }')).toEqual(['dlq_old']);
});

it('warns about an alert in pauseWhileAlerts that can never fire for an account of an acting rule', () => {
  const warnings = (rules: string, labels = '') => {
    const off = ', actionToken: { env: ACTION_TOKEN }, collect: { flowControl: { enabled: false } }';
    const alerts = `alerts:
  enabled: true
  rules: [{ name: Busy, when: { above: { metric: delivery_flow_control_waitlist_size, value: 9${labels} } } }]
`;
    const accounts = `${alerts}accounts: [${account('a', off)}, ${account('b', ', actionToken: { env: ACTION_TOKEN }')}]\n`;
    return load(`  pauseWhileAlerts: [Busy]${rules}`, accounts).warnings.map(formatError);
  };
  const acts = (name: string) => acting('enforce').replace('[a]', `[${name}]`);
  expect(warnings(acts('a'))).toEqual([
    'x.yaml:6:22: autoCancel.pauseWhileAlerts[0]: Busy never fires for the account a, because its collector flow_control is not enabled: it prevents no cancel there',
  ]);
  expect(warnings(acts('b'))).toEqual([]);
  expect(warnings(acts('a'), ', labels: { account: b }')).toEqual([]);
  expect(warnings(acting('plan'))).toEqual([]);
});

it('reads the action token only if auto-cancel may act, and shows it neither in warnings nor in JSON', () => {
  const missing = `accounts: [${account('a', ', actionToken: { env: NOT_SET }')}]\n`;
  expect(load(acting('plan'), missing).warnings).toEqual([]);
  expect(() => load(acting('enforce'), missing)).toThrow(
    'accounts[0].actionToken: the environment variable NOT_SET is not set',
  );
  const literal = load(acting('enforce'), `accounts: [${account('a', ', actionToken: action-canary')}]\n`);
  expect(literal.warnings.map(({ path, message }) => `${path}: ${message}`)).toEqual([
    'accounts[0].actionToken: the token is written in this file; { env: NAME } or { file: PATH } keep it out',
  ]);
  expect(JSON.stringify(literal)).not.toContain('canary');
  const there = `accounts: [${account('a', ', actionToken: { env: ACTION_TOKEN }')}]\n`;
  expect(load(acting('enforce'), there).warnings).toEqual([]);
});

it('reads no secrets if no environment is passed', () => {
  expect(parseConfig(ACCOUNT + PUBLIC, 'x.yaml').warnings).toEqual([]);
  expect(() => parseConfig(ACCOUNT, 'x.yaml', {})).toThrow('the environment variable TOKEN is not set');
});
