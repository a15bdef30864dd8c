import { describe, expect, it } from 'vitest';
import { agent, always, down, firing, flat, from, known, until } from './agent-series.ts';
import { grafanaRules } from './grafana-rules.ts';
import { promtools, type RuleTest, testRules } from './promtool.ts';

const FAILING = 'a messages_failing critical';
const FAST = 'DeliveryErrorBudgetFastBurn a';
const HOUR = 60;
const DAY = 24 * HOUR;
const FOREVER = Number.POSITIVE_INFINITY;

const ends: readonly RuleTest[] = [
  {
    name: 'a problem ends: its alert resolves at once, and other kinds are not affected',
    input: agent({ problems: { [FAILING]: firing(5, 30), 'a dlq_growing warning': firing(10) } }),
    minutes: 60,
    fires: { [FAST]: [[5, 30]], 'DeliveryDlqGrowing a': [[10, FOREVER]] },
  },
  {
    name: 'a problem becomes critical: the warning resolves, and the critical alert fires',
    input: agent({ problems: { 'a data_stale warning': firing(5, 8), 'a data_stale critical': firing(8, 40) } }),
    minutes: 60,
    fires: { 'DeliveryBlind a': [[5, 40]] },
  },
  {
    name: 'problems without a rule of their own are sent as DeliveryProblem; those of severity info and those that are off are not',
    input: agent({
      problems: {
        'a rate_limited warning': firing(5, 30),
        'a event_log_gap info': firing(5),
        'a dlq_old warning': firing(5),
        'a dlq_first_entry warning': firing(5),
        '- store_failing critical': firing(20, 40),
      },
    }),
    minutes: 50,
    fires: { 'DeliveryProblem a': [[5, 30]], DeliveryProblem: [[20, 40]] },
  },
  {
    name: 'problems of several subjects are one alert each',
    input: agent({
      problems: { 'a destination_failing warning x': firing(5), 'b destination_failing warning x': firing(5) },
    }),
    minutes: 20,
    fires: { 'DeliveryDestinationFailing a': [[5, FOREVER]], 'DeliveryDestinationFailing b': [[5, FOREVER]] },
  },
];

/** The only agent is down from minute 20 on. */
const killedUntil = (to: number, problem = firing(5)) =>
  agent({ up: down(20, to), problems: { [FAILING]: problem, '- notifications_failing critical': firing(5, 300) } });
const DOWN = (to: number) =>
  Object.fromEntries(
    ['DeliveryAgentDown', 'DeliveryInstanceDown', 'DeliveryAccountMissing a'].map(name => [name, [[30, to]] as const]),
  );

const restarts: readonly RuleTest[] = [
  {
    name: 'the agent is down for eleven minutes: its alerts neither resolve nor repeat',
    input: killedUntil(31),
    minutes: 90,
    fires: { [FAST]: [[5, FOREVER]], DeliveryProblem: [[5, FOREVER]], ...DOWN(31) },
  },
  {
    name: 'the agent is down for two hours: its alerts neither resolve nor repeat',
    input: killedUntil(140),
    minutes: 200,
    fires: { [FAST]: [[5, FOREVER]], DeliveryProblem: [[5, FOREVER]], ...DOWN(140) },
  },
  {
    name: 'a problem ends while the agent is down: its alert resolves as soon as the agent returns',
    input: killedUntil(140, minute => (minute < 100 ? firing(5)(minute) : firing(5, 140)(minute))),
    minutes: 200,
    fires: { [FAST]: [[5, 140]], DeliveryProblem: [[5, FOREVER]], ...DOWN(140) },
  },
  {
    name: 'the agent restarts and exposes its problems only after seven minutes: its alerts continue',
    input: agent({
      up: down(20, 22),
      problems: { [FAILING]: minute => (minute > 19 && minute < 29 ? undefined : firing(5)(minute)) },
    }),
    minutes: 60,
    fires: { [FAST]: [[5, FOREVER]] },
  },
  {
    name: 'the agent loses its store, and finds the problem again within ten minutes: the alert continues',
    input: agent({ up: down(20, 22), problems: { [FAILING]: m => (m > 19 && m < 28 ? undefined : firing(5)(m)) } }),
    minutes: 60,
    fires: { [FAST]: [[5, FOREVER]] },
  },
  {
    name: 'the agent loses its store, and the problem has ended: the alert resolves after ten minutes',
    input: agent({ up: down(20, 22), problems: { [FAILING]: m => (m > 19 ? undefined : firing(5)(m)) } }),
    minutes: 60,
    fires: { [FAST]: [[5, 29]] },
  },
  {
    name: 'the agent loses its store while a standby is down, and the problem has ended: the alert resolves after ten minutes',
    input: {
      ...agent({ up: down(20, 22), problems: { [FAILING]: m => (m > 19 ? undefined : firing(5)(m)) } }),
      ...agent({ instance: 'two:10922', up: down(10), accounts: {} }),
    },
    minutes: 60,
    fires: { [FAST]: [[5, 29]], DeliveryInstanceDown: [[20, FOREVER]] },
  },
  {
    name: 'the agent is blind: its alerts continue',
    input: agent({ problems: { [FAILING]: firing(5), 'a service_unavailable critical': firing(20, 200) } }),
    minutes: 240,
    fires: { [FAST]: [[5, FOREVER]], 'DeliveryBlind a': [[20, 200]] },
  },
  {
    name: 'Prometheus is down for nine minutes: no alert resolves, repeats or starts',
    input: agent({ up: m => (m > 20 && m < 29 ? Number.NaN : 1), problems: { [FAILING]: firing(5) } }),
    minutes: 60,
    fires: { [FAST]: [[5, FOREVER]] },
  },
  {
    name: 'the target of the only agent disappears: its alerts continue',
    input: agent({ up: known(0, 20), problems: { [FAILING]: firing(5) } }),
    minutes: 180,
    fires: { [FAST]: [[5, FOREVER]], DeliveryAgentDown: [[30, FOREVER]], 'DeliveryAccountMissing a': [[30, FOREVER]] },
  },
  {
    name: 'the agent was removed for good: its alerts end after a day',
    input: {
      ...agent({ up: known(0, 120), problems: { [FAILING]: firing(60) } }),
      ...agent({ job: 'other', accounts: {} }),
    },
    minutes: DAY + 5 * HOUR,
    step: 5,
    fires: {
      [FAST]: [[60, DAY + 120]],
      DeliveryAgentDown: [[130, FOREVER]],
      'DeliveryAccountMissing a': [[130, DAY + 120]],
    },
  },
];

const OTHER = { instance: 'two:10922', problems: {} } as const;

const takeovers: readonly RuleTest[] = [
  {
    name: 'a standby takes over from a killed leader: alerts continue, and resolve at once when their problem ends later',
    input: {
      ...agent({
        up: down(20, 40),
        accounts: { a: until(20) },
        problems: { [FAILING]: m => (m < 20 ? firing(5)(m) : undefined) },
        leads: m => Number(m < 20),
      }),
      ...agent({
        ...OTHER,
        accounts: { a: from(20.5) },
        problems: { [FAILING]: m => (m < 20.5 ? undefined : firing(5, 50)(m)) },
        leads: m => Number(m >= 20.5),
      }),
    },
    minutes: 90,
    fires: { [FAST]: [[5, 50]], DeliveryInstanceDown: [[30, 40]] },
  },
  {
    name: 'a standby takes over and the problem ends soon: the alert resolves at most ten minutes late',
    input: {
      ...agent({
        up: down(20, 22),
        accounts: { a: until(20) },
        problems: { [FAILING]: m => (m < 20 ? firing(5)(m) : undefined) },
        leads: m => Number(m < 20),
      }),
      ...agent({
        ...OTHER,
        accounts: { a: from(20.5) },
        problems: { [FAILING]: m => (m < 20.5 ? undefined : firing(5, 22)(m)) },
        leads: m => Number(m >= 20.5),
      }),
    },
    minutes: 60,
    fires: { [FAST]: [[5, 30]] },
  },
  {
    name: 'a pod is replaced by one with another name: no alert resolves, repeats or starts',
    input: {
      ...agent({ up: known(0, 20), problems: { [FAILING]: firing(5) } }),
      ...agent({ ...OTHER, up: known(19), problems: { [FAILING]: firing(5, 60) } }),
    },
    minutes: 120,
    fires: { [FAST]: [[5, 60]] },
  },
  {
    name: 'a problem ended after a pod was replaced: the death of the new pod does not fire it again',
    input: {
      ...agent({ up: known(0, 20), problems: { [FAILING]: firing(5) } }),
      ...agent({ ...OTHER, up: m => (m < 19 ? undefined : down(120)(m)), problems: { [FAILING]: firing(5, 60) } }),
    },
    minutes: 240,
    fires: {
      [FAST]: [[5, 60]],
      DeliveryAgentDown: [[130, FOREVER]],
      DeliveryInstanceDown: [[130, FOREVER]],
      'DeliveryAccountMissing a': [[130, FOREVER]],
    },
  },
  {
    name: 'no process leads: alerts continue, and NoLeader fires after a minute',
    input: {
      ...agent({
        up: down(20, 22),
        accounts: { a: until(20) },
        problems: {
          [FAILING]: m => (m < 20 ? firing(5)(m) : undefined),
          '- database_away critical': m => (m < 20 ? firing(10)(m) : undefined),
        },
        leads: m => Number(m < 20),
      }),
      ...agent({ ...OTHER, accounts: {}, leads: flat(0) }),
    },
    minutes: 120,
    fires: {
      [FAST]: [[5, FOREVER]],
      DeliveryProblem: [[10, FOREVER]],
      DeliveryNoLeader: [[21, FOREVER]],
      'DeliveryAccountMissing a': [[30, FOREVER]],
    },
  },
  {
    name: 'two processes lead for a while: NoLeader fires',
    input: {
      ...agent({ leads: flat(1) }),
      ...agent({ ...OTHER, accounts: {}, leads: m => Number(m >= 20 && m < 30) }),
    },
    minutes: 60,
    fires: { DeliveryNoLeader: [[21, 30]] },
  },
  {
    name: 'a standby is down: an agent-wide problem that ends does not return',
    input: {
      ...agent({ problems: { '- notifications_failing critical': firing(5, 40) }, leads: flat(1) }),
      ...agent({ ...OTHER, up: down(20), accounts: {}, leads: flat(0) }),
    },
    minutes: 240,
    fires: { DeliveryProblem: [[5, 40]], DeliveryInstanceDown: [[30, FOREVER]] },
  },
  ...[0.5, 1].map(
    (step): RuleTest => ({
      name: `a takeover between two scrapes that are ${60 * step} s apart does not fire NoLeader`,
      input: {
        ...agent({ up: down(20, 25), accounts: { a: until(20) }, leads: m => Number(m < 20) }),
        ...agent({ ...OTHER, accounts: { a: from(20 + step) }, leads: m => Number(m >= 20 + step) }),
      },
      step,
      minutes: 60,
      fires: {},
    }),
  ),
];

const others: readonly RuleTest[] = [
  {
    name: 'an account is removed from the configuration: its alert resolves within ten minutes, and it is not missing',
    input: agent({
      accounts: { a: until(20), b: always },
      problems: { [FAILING]: m => (m < 20 ? firing(5)(m) : undefined), 'b messages_failing critical': firing(5) },
    }),
    minutes: 120,
    fires: { [FAST]: [[5, 30]], 'DeliveryErrorBudgetFastBurn b': [[5, FOREVER]] },
  },
  {
    name: 'an account is removed with a new pod: its alert resolves within ten minutes, and it is not missing',
    input: {
      ...agent({ up: known(0, 20), accounts: { a: always, b: always }, problems: { [FAILING]: firing(5) } }),
      ...agent({ ...OTHER, up: known(19), accounts: { b: always } }),
    },
    minutes: 120,
    fires: { [FAST]: [[5, 30]] },
  },
  {
    name: 'accounts are scraped separately, and one is removed: its alert resolves within ten minutes, and it is not missing',
    input: {
      ...agent({ accounts: {} }),
      ...agent({ probe: 'a', up: known(0, 20), problems: { [FAILING]: firing(5) } }),
      ...agent({ probe: 'b', accounts: { b: always } }),
    },
    minutes: 120,
    fires: { [FAST]: [[5, 30]] },
  },
  {
    name: 'accounts are scraped separately, and the agent is down: alerts continue, and each account is missing',
    input: {
      ...agent({ up: down(20), accounts: {} }),
      ...agent({ probe: 'a', up: down(20), problems: { [FAILING]: firing(5) } }),
    },
    minutes: 180,
    fires: {
      [FAST]: [[5, FOREVER]],
      DeliveryAgentDown: [[30, FOREVER]],
      'DeliveryInstanceDown 2': [[30, FOREVER]],
      'DeliveryAccountMissing a': [[30, FOREVER]],
    },
  },
  {
    name: 'one of two agents with different accounts is down: its accounts are missing, and their alerts continue',
    input: {
      ...agent({ up: down(20, 200), accounts: { a: always, c: always }, problems: { [FAILING]: firing(5, 230) } }),
      ...agent({ ...OTHER, accounts: { b: always }, problems: { 'b messages_failing critical': firing(5, 100) } }),
    },
    minutes: 300,
    fires: {
      [FAST]: [[5, 230]],
      'DeliveryErrorBudgetFastBurn b': [[5, 100]],
      DeliveryInstanceDown: [[30, 200]],
      'DeliveryAccountMissing a': [[30, 200]],
      'DeliveryAccountMissing c': [[30, 200]],
    },
  },
  {
    name: 'the pod of one of two agents with different accounts disappears: its accounts are missing',
    input: {
      ...agent({ up: known(0, 20), accounts: { a: always } }),
      ...agent({ ...OTHER, accounts: { b: always } }),
    },
    minutes: 180,
    fires: { 'DeliveryAccountMissing a': [[30, FOREVER]] },
  },
  {
    name: 'one of two clusters with accounts of the same name is down: only its alerts are kept',
    input: {
      ...agent({ cluster: 'eu', up: down(20), problems: { [FAILING]: firing(5) } }),
      ...agent({ cluster: 'us', problems: { 'a dlq_growing warning': firing(5, 60) } }),
    },
    minutes: 180,
    fires: {
      [FAST]: [[5, FOREVER]],
      'DeliveryDlqGrowing a': [[5, 60]],
      DeliveryInstanceDown: [[30, FOREVER]],
      'DeliveryAccountMissing a': [[30, FOREVER]],
    },
  },
  {
    name: 'a scrape fails now and then: no alert resolves, repeats or starts',
    input: agent({ up: m => Number(m % 4 > 0), problems: { [FAILING]: firing(5, 60) } }),
    minutes: 120,
    fires: { [FAST]: [[5, 61]] },
  },
];

const tests = [...ends, ...restarts, ...takeovers, ...others];

describe.skipIf(promtools.length === 0)('the default rules (promtool test rules)', () => {
  it.each(tests)('$name', test => {
    for (const promtool of promtools) expect(testRules(promtool, [test]), promtool).toBe('');
  });
});

const tested = new Set(tests.flatMap(({ fires }) => Object.keys(fires).map(name => name.split(' ')[0])));
/**
 * The tested alerts for Grafana, as rules for Prometheus. Each reads the samples of a day. To save time, alerts that no test
 * expects are omitted, and only one version of promtool runs.
 */
const forGrafana = grafanaRules()
  .filter(({ title }) => tested.has(title))
  .map(({ title, data: [query], for: pending, labels = {} }) => ({
    alert: title,
    expr: query.model.expr,
    for: pending,
    labels,
  }));

describe.skipIf(promtools.length === 0)('the alerts that Grafana evaluates (promtool test rules)', () => {
  it.each(tests)('$name', test => {
    expect(testRules(promtools.at(-1) ?? '', [test], forGrafana)).toBe('');
  });
});
