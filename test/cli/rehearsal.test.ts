import { expect, it } from 'vitest';
import { addEntries, commandWords, startReceiver } from '../../src/cli/rehearsal.ts';
import { dlqRetention, rehearsalClock, rehearsalConfig } from '../../src/cli/rehearsal-config.ts';
import { parseConfig } from '../../src/config/load.ts';
import { Secret } from '../../src/kit/secret.ts';
import { afterThisTest } from '../support/client.ts';
import { emulateEmpty } from '../support/emulate.ts';

it.each([
  [" pause  --reason 'deploying the callback endpoint' ", ['pause', '--reason', 'deploying the callback endpoint']],
  [`pause --reason="it's late" --by ''`, ['pause', "--reason=it's late", '--by', '']],
  ["delivery-watch auto-cancel approve 1 --config '/tmp/it'\\''s here/c.yaml'", ['approve', '1']],
  ['auto-cancel explain --config=c.yaml m', ['explain', 'm']],
  ["pause --reason don't", ['pause', '--reason', "don't"]],
  [' ', []],
])('a rehearsal splits the line %j like a shell', (line, words) => expect(commandWords(line)).toEqual(words));

const CANARY = 'canary.example';

/** Configuration with every key that can contain an address, a file or a secret. */
const everything = {
  server: { listen: '127.0.0.1:1', externalUrl: `https://${CANARY}`, allowedHosts: [CANARY], webConfigFile: CANARY },
  upstream: { proxy: `http://user:canary@${CANARY}`, caFile: CANARY },
  store: { kind: 'postgres', url: `postgres://user:canary@${CANARY}/db`, history: { keep: '1h' } },
  accounts: [
    {
      name: 'a',
      baseUrl: `https://${CANARY}`,
      regionalBaseUrl: `https://{region}.${CANARY}`,
      region: 'eu',
      token: 'canary-token',
      actionToken: 'canary-action',
      management: { baseUrl: `https://${CANARY}`, username: 'u', password: 'canary-password' },
      upstream: { proxy: `http://own.${CANARY}` },
    },
  ],
  push: { metrics: { enabled: true, endpoint: `https://${CANARY}`, headers: { authorization: 'canary' } } },
  tracing: { enabled: true, endpoint: `https://${CANARY}`, headers: { authorization: 'canary' } },
  alerts: {
    enabled: true,
    notifiers: [
      { name: 'am', alertmanager: { urls: [`https://${CANARY}`] } },
      { name: 'hook', webhook: { url: `https://${CANARY}/x`, secret: 'canary-secret', format: 'slack' } },
    ],
  },
  heartbeat: { url: `https://${CANARY}/beat` },
  autoCancel: { stopFile: `/${CANARY}/STOP` },
};

/** Returns all text in a value, including secrets. */
function textsIn(value: unknown): string[] {
  if (value instanceof Secret) return [value.reveal()];
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

const parse = (config: object) => parseConfig(JSON.stringify(config), 'x.yaml').config;

const RECEIVER = 'http://127.0.0.1:2';
const place = { speed: 900, folder: '/tmp/rehearsal', receiver: RECEIVER };

const base = (url: string) => parse({ accounts: [{ name: 'a', baseUrl: url, token: 'emulated' }] });

it('the configuration of a rehearsal contains no configured address, file or secret', async () => {
  const emulator = await emulateEmpty();
  const config = rehearsalConfig(parse(everything), base(emulator.url), place);
  const texts = textsIn(config);
  expect(texts.filter(text => text.includes('canary'))).toEqual([]);
  const addresses = texts.filter(text => /^(https?|postgres):/.test(text));
  expect(new Set(addresses.map(text => new URL(text).origin))).toEqual(
    // The third origin is the default endpoint of tracing and push, which are disabled here.
    new Set([new URL(emulator.url).origin, RECEIVER, 'http://localhost:4318']),
  );
  expect([config.tracing.enabled, config.push.metrics.enabled, config.heartbeat]).toEqual([false, false, null]);
});

it('a rehearsal keeps rules, alerts and filters, and scales intervals to real time', async () => {
  const emulator = await emulateEmpty();
  const given = parse({
    ...everything,
    collect: { dlq: { every: '30s', rescanEvery: '2h', filters: [{ name: 'x', match: { queueName: 'q' } }] } },
    autoCancel: { rules: [{ name: 'r', match: { label: { in: ['x'] } }, stuckWhen: { maxGap: '20m' } }] },
    alerts: { ...everything.alerts, rules: [{ name: 'A', when: { stale: { collector: 'dlq' } } }] },
  });
  const { collect, alerts, autoCancel, staleness } = rehearsalConfig(given, base(emulator.url), place);
  expect([collect.dlq.every, collect.dlq.rescanEvery, collect.events.every]).toEqual([225_000, 7_200_000, 225_000]);
  // Data is stale after three real seconds and withdrawn after six.
  expect(staleness.markAfter * collect.dlq.every).toBe(900 * 3000);
  expect(Math.min(staleness.withdrawAtMost, staleness.withdrawAfter * collect.dlq.every)).toBe(900 * 6000);
  expect(collect.dlq.filters).toEqual(given.collect.dlq.filters);
  expect(alerts.rules).toEqual(given.alerts.rules);
  expect(alerts.notifiers.map(({ name }) => name)).toEqual(['am', 'hook']);
  expect({ ...autoCancel, rules: [] }).toEqual({ ...given.autoCancel, stopFile: '/tmp/rehearsal/STOP', rules: [] });
  const [rule, before] = [autoCancel.rules[0], given.autoCancel.rules[0]];
  // The maximum gap is ten real seconds.
  expect(rule).toEqual({ ...before, stuckWhen: { ...before?.stuckWhen, maxGap: 900 * 10_000 } });
});

it('the clock of a rehearsal starts fast and slows down to at most 60 times real time before a rule may act', async () => {
  const HOUR = 3_600_000;
  const rules = [{ name: 'r', match: { label: { in: ['x'] } }, stuckWhen: { inProgressFor: '72h' }, grace: '1h' }];
  const given = parse({ ...everything, autoCancel: { rules } });
  let real = 5;
  const slept: number[] = [];
  const clock = {
    now: () => 1_000_000 + real,
    monotonic: () => real,
    sleep: async (ms: number) => void slept.push(ms),
  };
  const rehearsed = rehearsalClock(clock, 600, given);
  const elapsed = () => rehearsed.monotonic() - 5;
  expect([elapsed(), rehearsed.now()]).toEqual([0, 1_000_005]);
  // The clock does not advance during synchronous code.
  real = 1000;
  expect(elapsed()).toBe(0);
  real = 5;
  await Promise.resolve();
  // The clock runs slowly for six hours, from a minute before the rule may first act (72 h + 1 h grace).
  const from = 73 * HOUR - 60_000;
  await rehearsed.sleep(from);
  await rehearsed.sleep(from + 6 * HOUR);
  await rehearsed.sleep(from + 7 * HOUR);
  expect(slept).toEqual([from / 600, from / 600 + (6 * HOUR) / 60, from / 600 + (6 * HOUR) / 60 + HOUR / 600]);
  real = 5 + from / 600 + HOUR / 60;
  await Promise.resolve();
  expect(elapsed()).toBeCloseTo(from + HOUR, 3);
  await rehearsed.sleep(60_000);
  expect(slept.at(-1)).toBeCloseTo(1000, 3);
  real = 5 + from / 600 + (6 * HOUR) / 60 + HOUR / 600;
  await Promise.resolve();
  expect(elapsed()).toBeCloseTo(from + 7 * HOUR, 3);
});

it('in a rehearsal, dead letters outlive the longest waiting time of the rules unless their retention is configured', () => {
  const rules = [{ name: 'r', match: { label: { in: ['x'] } }, stuckWhen: { inProgressFor: '5d' } }];
  expect(dlqRetention(parse(everything))).toBe(3 * 86_400_000);
  expect(dlqRetention(parse({ ...everything, autoCancel: { rules } }))).toBe(10 * 86_400_000);
  const accounts = [{ ...everything.accounts[0], retention: { dlq: '4d' } }];
  expect(dlqRetention(parse({ ...everything, accounts, autoCancel: { rules } }))).toBe(4 * 86_400_000);
});

it('a rehearsal adds entries for each rule and filter, or returns a note if it cannot', async () => {
  const emulator = await emulateEmpty();
  const given = parse({
    ...everything,
    collect: {
      dlq: {
        filters: [
          { name: 'payments', match: { queueName: 'payments', responseStatus: 502, callerIp: '192.0.2.7' } },
          { name: 'one', match: { messageId: 'm' } },
        ],
      },
    },
    autoCancel: {
      mode: 'plan',
      rules: [
        { name: 'jobs', match: { workflowUrl: { prefix: ['https://api.example/'] }, responseStatus: { prefix: [5] } } },
        { name: 'callbacks', match: { failureCallbackUrl: { prefix: ['https://reports.example/'] } } },
        { name: 'labels', match: { label: { in: ['x', 'y'] } }, except: { queue: { in: ['z'] } } },
        {
          name: 'blind',
          match: { url: { in: ['https://blind.example/'] } },
          evidence: 'blind',
          stuckWhen: { seenFor: '3d' },
        },
        { name: 'pattern', match: { url: { matches: 'https://.*' } } },
      ],
    },
  });
  expect(addEntries(given, emulator.accounts)).toEqual([
    'filter one: no entry can be made for messageId, fromDate or toDate',
    'rule pattern: no entry can be made for matches alone; add in or prefix',
  ]);
  const rows = emulator.state.dlqRows() as readonly object[] as readonly Record<string, unknown>[];
  const ofQueue = rows.filter(({ queueName }) => queueName === 'payments');
  expect(ofQueue.map(({ responseStatus, callerIP }) => [responseStatus, callerIP])).toEqual(
    Array.from({ length: 3 }, () => [502, '192.0.2.7']),
  );
  expect(rows.filter(({ workflowUrl }) => String(workflowUrl).startsWith('https://api.example/'))).toHaveLength(3);
  const labelled = rows.filter(({ label }) => label === 'x' || label === 'y');
  expect(labelled.map(({ queueName }) => queueName)).toEqual(['rehearsal', 'rehearsal', 'rehearsal']);
  expect(rows.filter(({ failureCallback }) => String(failureCallback).startsWith('https://reports'))).toHaveLength(3);
  const blind = rows.filter(({ url }) => url === 'https://blind.example/');
  expect(blind.map(row => 'failureCallbackInfo' in row)).toEqual([false, false, false]);
});

it('the receiver of a rehearsal prints each alert of a notification', async () => {
  const lines: string[] = [];
  const receiver = await startReceiver(line => lines.push(line));
  afterThisTest(receiver.close);
  const alert = { status: 'firing', labels: { alertname: 'A', account: 'a' }, annotations: { summary: 'two\nlines' } };
  const { status } = await fetch(`${receiver.url}/ops`, { method: 'POST', body: JSON.stringify({ alerts: [alert] }) });
  expect(status).toBe(200);
  expect(lines).toEqual(['to ops: firing A{account="a"} two\u{fffd}lines']);
});
