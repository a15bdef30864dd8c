import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { type AlertChange, backtest } from '../../../src/cli/backtest/run.ts';
import { backtestCommand } from '../../../src/cli/backtest.ts';
import type { EventSeed } from '../../../src/emulator/added.ts';
import { systemClock } from '../../../src/kit/clock.ts';
import { emulateEmpty } from '../../support/emulate.ts';
import { newFolder } from '../../support/folder.ts';
import { json, serve } from '../../support/http-service.ts';
import { loadedFrom } from '../../support/view-scene.ts';
import { compare, onFailure } from './comparison.ts';
import { RULES } from './rules.ts';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

const failed = { metric: 'delivery_messages_finished_total', labels: { outcome: 'failed' } };

/** Returns the events of messages that fail, one message per minute. */
const failures = (from: number, minutes: number): EventSeed[] =>
  Array.from({ length: minutes }, (_, minute) =>
    (['created', 'active', 'error', 'failed'] as const).map((state, index) => ({
      messageId: `msg_${from + minute}`,
      state,
      time: from + minute * MINUTE + index * SECOND,
      url: 'https://one.example.com/',
    })),
  ).flat();

interface Settings {
  readonly builtin?: object | null;
  readonly events?: object;
  readonly [setting: string]: unknown;
}

async function setUp(rules: readonly object[], { builtin = null, events = {}, ...account }: Settings = {}) {
  const emulator = await emulateEmpty();
  const loaded = loadedFrom({
    accounts: [{ name: 'a', baseUrl: emulator.url, token: emulator.token, ...account }],
    collect: { events: { every: '1m', ...events } },
    alerts: { evaluateEvery: '1m', builtin, rules },
  });
  async function run(since: number) {
    const changes: AlertChange[] = [];
    const [result] = await backtest(loaded, since, {
      env: {},
      clock: systemClock,
      random: () => 0,
      signal: new AbortController().signal,
      onChange: change => changes.push(change),
      onFailure,
      onProgress: () => undefined,
    });
    return { result, changes };
  }
  return { emulator, run };
}

const QUIET = {
  name: 'Quiet',
  when: { below: { metric: 'delivery_events_recent', labels: { state: 'failed' }, value: 1 } },
};

it('rules backtest reports alert changes at the same evaluations as an agent that was running at the time', async () => {
  const { live, past, result } = await compare({
    scenario: 'schedule-missed',
    length: HOUR,
    every: 15_000,
    config: { alerts: { enabled: true, rules: RULES } },
  });
  expect(past).toEqual(live);
  expect(live.length).toBeGreaterThan(10);
  expect(result).toMatchObject({ rejected: 0 });
});

it('rules backtest reports each alert that fires and resolves, with its labels, value and start', async () => {
  const { emulator, run } = await setUp([
    { name: 'Failing', when: { growth: { ...failed, over: '10m', atLeast: 5 } } },
  ]);
  const from = Math.floor((Date.now() - 2 * HOUR) / MINUTE) * MINUTE;
  emulator.state.addEvents([
    ...failures(from, 1),
    ...failures(from + 30 * MINUTE, 10),
    ...failures(from + 100 * MINUTE, 1),
  ]);
  const { result, changes } = await run(from - HOUR);
  expect(changes).toMatchObject([
    { account: 'a', rule: 'Failing', labels: { outcome: 'failed' }, state: 'firing', value: 5 },
    { account: 'a', rule: 'Failing', labels: { outcome: 'failed' }, state: 'resolved', startedAt: changes[0]?.at },
  ]);
  const [firing, resolved] = changes.map(({ at }) => (at - from) / MINUTE) as [number, number];
  // A message is counted one overlap (1 min) after it ended, because no earlier event can appear after that.
  expect([firing, resolved]).toEqual([36, 47]);
  expect(result).toMatchObject({ range: { from }, events: 48 });
  expect(result?.rules).toEqual([{ rule: 'Failing', fired: 1, firingFor: 11 * MINUTE, unknownFor: 10 * MINUTE }]);
});

it('rules backtest reports a rule as unknown if the event log does not contain its data', async () => {
  const { emulator, run } = await setUp([
    { name: 'Dlq', when: { above: { metric: 'delivery_dlq_messages', value: 1 } } },
    { name: 'Waiting', when: { above: { metric: 'delivery_flow_control_waitlist_size', value: 1 } } },
    { name: 'Gaps', when: { above: { metric: 'delivery_event_log_gaps_total', value: 1 } } },
    { name: 'Down', when: { below: { metric: 'delivery_up', value: 1 } } },
    { name: 'Stale', when: { stale: { collector: 'events' } } },
    { name: 'Other', when: { above: { metric: 'delivery_messages_in_flight', labels: { account: ['b'] }, value: 1 } } },
  ]);
  emulator.state.addEvents(failures(Date.now() - HOUR, 1));
  const { result, changes } = await run(Date.now() - 2 * HOUR);
  expect(changes).toEqual([]);
  expect(result?.rules.map(({ rule, fired, unknown }) => [rule, fired, unknown])).toEqual([
    ['Dlq', 0, 'the event log does not contain delivery_dlq_messages'],
    ['Waiting', 0, 'the event log does not contain delivery_flow_control_waitlist_size'],
    ['Gaps', 0, 'the event log does not contain delivery_event_log_gaps_total'],
    ['Down', 0, 'the event log does not contain delivery_up'],
    ['Stale', 0, 'the event log does not contain when data was stale'],
  ]);
});

it('rules backtest evaluates built-in alerts on event data and reports the others as unknown', async () => {
  const { emulator, run } = await setUp([], { builtin: { extended: true, disable: ['retries_high'] } });
  const from = Math.floor((Date.now() - 3 * HOUR) / MINUTE) * MINUTE;
  emulator.state.addEvents(failures(from, 170));
  const { result, changes } = await run(from - HOUR);
  expect(changes).toMatchObject([
    { rule: 'DeliveryErrorBudgetFastBurn', labels: { collector: 'events', severity: 'critical' }, state: 'firing' },
  ]);
  const known = result?.rules.filter(({ unknown }) => unknown === undefined).map(({ rule, fired }) => [rule, fired]);
  expect(known).toEqual([
    ['DeliveryErrorBudgetFastBurn', 1],
    ['DeliveryErrorBudgetSlowBurn', 0],
    ['DeliveryOnTimeBudgetFastBurn', 0],
    ['DeliveryOnTimeBudgetSlowBurn', 0],
    ['DeliveryStalled', 0],
    ['DeliveryScheduleMissed', 0],
    ['DeliveryScheduleLate', 0],
  ]);
  const unknown = new Map(result?.rules.map(each => [each.rule, each.unknown]));
  expect(unknown.get('DeliveryEventLogStale')).toBe('the event log does not contain when it was read');
  expect(unknown.get('DeliveryDlqGrowing')).toBe('the event log does not contain the dead-letter queue');
  expect(unknown.get('DeliveryBlind')).toBe('the event log does not contain the state of the agent');
  expect(unknown.has('DeliveryRetryRatioHigh')).toBe(false);
});

it('rules backtest evaluates no rule if collect.events is disabled', async () => {
  const { run } = await setUp([QUIET], { events: { enabled: false } });
  expect((await run(Date.now() - HOUR)).result).toMatchObject({
    range: undefined,
    requests: 0,
    rules: [{ rule: 'Quiet', unknown: 'collect.events is disabled' }],
  });
});

it('rules backtest treats an empty log as an absence of events only if its retention is configured, and only within that retention', async () => {
  const unknown = await setUp([QUIET]);
  expect((await unknown.run(Date.now() - HOUR)).result).toMatchObject({
    range: undefined,
    rules: [{ rule: 'Quiet', unknown: 'the event log lists nothing' }],
  });
  const kept = await setUp([QUIET], { retention: { events: '30m' } });
  const now = Date.now();
  const { result, changes } = await kept.run(now - HOUR);
  expect(changes).toMatchObject([{ rule: 'Quiet', state: 'firing' }]);
  expect(result?.range?.from).toBeGreaterThan(now - 30 * MINUTE - 1);
});

it('rules backtest reports a rule about missing events as unknown while rows are unreadable', async () => {
  const time = Date.now() - HOUR;
  const service = await serve((_request, response) =>
    json(response, { events: [{ messageId: 'msg_1', state: 'CREATED', time }, { messageId: 'msg_2' }] }),
  );
  const { run } = await setUp([QUIET], { baseUrl: service.url });
  const { result } = await run(time - HOUR);
  const { from = 0, to = 0 } = result?.range ?? {};
  expect(result?.rejected).toBeGreaterThan(0);
  expect(result?.rules).toEqual([{ rule: 'Quiet', fired: 0, firingFor: 0, unknownFor: expect.any(Number) }]);
  expect(result?.rules[0]?.unknownFor).toBeGreaterThan(to - from - MINUTE);
});

it('rules backtest fails with the error of the service if the service cannot be read', async () => {
  const { emulator, run } = await setUp([QUIET]);
  emulator.faults.add({ kind: 'status', status: 403 });
  await expect(run(Date.now() - HOUR)).rejects.toThrow('403');
});

it.each([
  [['--account', 'nobody'], 'error: config.yaml has no account nobody; it has a\n'],
  [['--since', '2999-01-01T00:00:00Z'], 'error: --since must be before now\n'],
  [['--since', 'yesterday'], expect.stringContaining('must be a time such as 2026-11-22T06:00:00Z')],
])('rules backtest rejects the options %j before it queries the service', async (options, text) => {
  const config = join(newFolder(), 'config.yaml');
  writeFileSync(
    config,
    JSON.stringify({ accounts: [{ name: 'a', baseUrl: 'http://127.0.0.1:1', token: 'test-token' }] }),
  );
  let written = '';
  const command = backtestCommand()
    .exitOverride()
    .configureOutput({ writeErr: line => (written += line) });
  await expect(command.parseAsync(['--config', config, ...options], { from: 'user' })).rejects.toThrow();
  expect(written.replace(config, 'config.yaml')).toEqual(text);
});
