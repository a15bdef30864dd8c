import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { parseConfig } from '../../src/config/load.ts';
import { redactedYaml } from '../../src/config/redacted.ts';
import { identityOf } from '../../src/kit/identity.ts';

const CANARY = 'canary-7f3a';

/** Configuration with every kind of secret, and every kind of value that parsing changes, such as durations and times. */
const FULL = `
server: { externalUrl: 'https://user:${CANARY}@dw.example.com/?key=${CANARY}' }
upstream: { proxy: 'http://user:${CANARY}@proxy.example.com:3128', timeout: 45s }
accounts:
  - name: in-place
    baseUrl: https://delivery.example.com
    token: ${CANARY}
    actionToken: ${CANARY}
    management: { baseUrl: 'https://account.example.com', username: owner, password: ${CANARY} }
    retention: { dlq: 7d }
    limits: { dlqSize: 10000, requestsPerDay: 5 }
    labels: { team: payments, literal: x }
    collect: { dlq: { every: 1m, filters: [{ name: f, match: { responseStatus: 500, url: 'https://a.example/?key=${CANARY}' } }] } }
    upstream: { proxy: { env: PROXY } }
    objectives: { dlqMaxAge: 36h }
  - { name: from-env, baseUrl: 'https://delivery.example.com', token: { env: TOKEN } }
  - { name: from-file, baseUrl: 'https://delivery.example.com', token: { file: /run/token } }
collect: { routes: ['/users/:id'] }
schedules: [{ name: nightly, match: { scheduleId: s }, cron: '0 2 * * *', tz: Europe/Berlin, grace: 15m, endsWithin: 90m }]
tracing: { enabled: true, headers: { authorization: ${CANARY}, x-key: { env: KEY } } }
alerts:
  enabled: true
  rules: [{ name: Big, when: { growth: { metric: delivery_dlq_messages, over: 1h, atLeast: 10 } }, for: 30m }]
  silences: [{ match: { alertname: Big }, until: '2027-01-02T00:00:00Z', reason: load test }]
  notifiers:
    - { name: ops, alertmanager: { urls: ['http://127.0.0.1:9093/${CANARY}'] } }
    - { name: hook, webhook: { url: 'https://hooks.example.com/${CANARY}', secret: ${CANARY} } }
    - { name: chat, webhook: { url: { env: SLACK }, format: slack } }
    - { name: pd, webhook: { format: pagerduty, secret: ${CANARY} } }
heartbeat: { url: 'https://beat.example.com/${CANARY}' }
autoCancel:
  mode: plan
  rules:
    - name: r
      expires: 2027-06-30
      match: { url: { matches: 'https://a\\.example/.*' }, responseStatus: { in: [500] } }
      windows: { deny: [{ from: '2026-12-20T00:00:00Z', to: '2027-01-02T00:00:00Z', reason: freeze }] }
`;
const of = (text: string, file = 'config.yaml') => parseConfig(text, file).config;

it('the redacted configuration shows no secret, and only the host of a URL that may be secret', async () => {
  const text = await redactedYaml(of(FULL));
  expect(text).not.toContain(CANARY);
  const lines = text.split('\n').map(line => line.trim());
  for (const line of [
    'token: <secret>',
    'env: TOKEN',
    'file: /run/token',
    'password: <secret>',
    'authorization: <secret>',
    'proxy: http://proxy.example.com:3128/<secret>',
    '- http://127.0.0.1:9093/<secret>',
    'url: https://hooks.example.com/<secret>',
    'url: https://beat.example.com/<secret>',
    'url: https://events.pagerduty.com/<secret>',
    'externalUrl: https://dw.example.com/?…',
  ]) {
    expect(lines).toContain(line);
  }
});

it.each([
  ['all kinds of values', FULL.replaceAll(CANARY, '<secret>')],
  ['config.example.yaml', readFileSync('config.example.yaml', 'utf8')],
  ['examples/auto-cancel.yaml', readFileSync(join('examples', 'auto-cancel.yaml'), 'utf8')],
])('the redacted configuration is equivalent to the original: %s', async (_name, text) => {
  const config = of(text);
  const again = of((await redactedYaml(config)).replaceAll('?…', ''));
  // Redacted parts of URLs differ or are missing.
  const visible = (each: typeof config) =>
    identityOf(JSON.parse(JSON.stringify(each).replaceAll(/(user:<secret>@|\?key=<secret>)/g, '')));
  expect(visible(again)).toBe(visible(config));
});

it('the redacted configuration omits settings that accounts inherit, and lists at most 100 accounts', async () => {
  const many = Array.from(
    { length: 150 },
    (_, index) => `{ name: a${index}, baseUrl: 'https://x.example', token: { env: T } }`,
  );
  const text = await redactedYaml(of(`accounts: [${many.join(', ')}]`));
  expect(text.match(/rescanEvery/g)).toHaveLength(1);
  expect(text).toContain('- (50 more)');
  expect(text).not.toContain('name: a100');
});
