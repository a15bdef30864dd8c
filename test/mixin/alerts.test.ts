import { describe, expect, it } from 'vitest';
import { collectors } from '../../src/collectors/index.ts';
import { alertGroups, alertingRule } from '../../src/mixin/rules.ts';
import { requireProgram } from '../support/prometheus.ts';
import { type AlertCase, alertCases, type Input, type Values } from './alert-cases.ts';
import { asJobs, fires, isQuiet, JOB, type RuleTest, replica, testRules } from './promtool.ts';

const alerts = alertGroups.flatMap(({ alerts }) => alerts);
const alertNamed = (name: string) => {
  const alert = alerts.find(alert => alert.name === name);
  if (!alert) throw new Error(`there is no alert ${name}`);
  return alert;
};

/** How long the longest alert goes on firing when it is no longer true, in minutes. */
const KEPT = 16;
/** So long after it would have fired it is watched that it does not. */
const LONG = 60;

const isCounter = (series: string) => /_(total|bucket|count)(\{|$)/.test(series);
/** Families that are withdrawn when they can't be read. */
const withdrawn = new Set(
  collectors.flatMap(({ families }) =>
    Object.values(families).flatMap(({ name, type }) => (type === 'gauge' ? [name] : [])),
  ),
);
const isWithdrawn = (series: string) => withdrawn.has(series.replace(/\{.*/, ''));

/** It has not fired at any time until then. */
const neverFired = (alert: string, minute: number) => ({
  expr: `count(count_over_time(ALERTS{alertname="${alert}", alertstate="firing"}[${minute + 1}m]))`,
  minute,
  expected: [],
});

function firstFiring({ alert, labels = {}, fires: input, at, says }: AlertCase): RuleTest {
  const { annotations, labels: given } = alertingRule(alertNamed(alert));
  const account = alertNamed(alert).isOfAgent ? {} : { account: 'a' };
  const expected = {
    exp_labels: { job: JOB, ...account, ...labels, ...given },
    exp_annotations: {
      ...Object.fromEntries(
        Object.entries(annotations).map(([name, text]) => [
          name,
          text.replace(
            /\{\{ \$labels\.(\w+) \}\}/g,
            (_, label) => ({ account: 'a', ...labels })[label as string] ?? '?',
          ),
        ]),
      ),
      description: says,
    },
  };
  return {
    name: `${alert} fires at the minute, and says what is wrong`,
    input: replica(input),
    minutes: at,
    alerts: [{ alert, minute: at, expected: [expected] }],
    queries: [neverFired(alert, at - 1)],
  };
}

function quiet({ alert, at }: AlertCase, why: string, input: Input): RuleTest[] {
  const minutes = at + LONG;
  return [
    { name: `${alert} is quiet: ${why}`, input: replica(input), minutes, queries: [neverFired(alert, minutes)] },
    {
      name: `${alert} is quiet in two replicas: ${why}`,
      input: { ...replica(input), ...replica(input, 'two:10922') },
      minutes,
      queries: [neverFired(alert, minutes)],
    },
    {
      name: `${alert} is quiet with a restart: ${why}`,
      input: replica(input, 'one:10922', restartedAt(at + 5)),
      minutes,
      queries: [neverFired(alert, minutes)],
    },
  ];
}

/** For two minutes there is nothing; what only rises begins anew, as where nothing is stored. */
const restartedAt = (restart: number) => (series: string, values: Values) => (minute: number) => {
  if (minute < restart) return values(minute);
  if (minute < restart + 2) return undefined;
  const value = values(minute);
  return value === undefined || !isCounter(series) ? value : value - (values(restart + 2) ?? 0);
};

const endsAt = (end: number) => (_series: string, values: Values) => (minute: number) =>
  minute < end ? values(minute) : undefined;

const withGaps = (_series: string, values: Values) => (minute: number) =>
  minute % 4 === 1 || minute % 4 === 2 ? undefined : values(minute);

/** What was before, and from then on what ends it: counters stand still, or rise as they do in it. */
function then(input: Input, minute: number, after: Input): Input {
  const names = [...new Set([...Object.keys(input), ...Object.keys(after)])];
  return Object.fromEntries(
    names.map(name => {
      const [before, later] = [input[name], after[name]];
      const start = isCounter(name) ? (before?.(minute) ?? 0) : 0;
      return [
        name,
        (m: number) => {
          if (m < minute) return before?.(m);
          if (!isCounter(name)) return later?.(m);
          return start + (later?.(m) ?? 0) - (later?.(minute) ?? 0);
        },
      ];
    }),
  );
}

function firingCases(each: AlertCase): RuleTest[] {
  const { alert, fires: input, at, idle, recovery = idle } = each;
  const last = at + 60 + KEPT + 90;
  return [
    {
      name: `${alert} fires once for two replicas`,
      input: { ...replica(input), ...replica(input, 'two:10922') },
      minutes: at,
      queries: [fires(alert, at), neverFired(alert, at - 1)],
    },
    {
      name: `${alert} fires when one of two replicas is lost`,
      input: { ...replica(input), ...replica(input, 'two:10922', endsAt(at - 1)) },
      minutes: at + 10,
      queries: [fires(alert, at), fires(alert, at + 10)],
    },
    {
      name: `${alert} fires where samples are missing`,
      input: replica(input, 'one:10922', withGaps),
      minutes: at + 5,
      queries: [fires(alert, at + 5)],
    },
    {
      name: `${alert} goes on firing through a restart`,
      input: replica(input, 'one:10922', restartedAt(at + 3)),
      minutes: at + 30,
      queries: [4, 6, 10, 15].map(minute => fires(alert, at + minute)),
    },
    {
      name: `${alert} ends when it is over`,
      input: replica(then(input, at + 5, recovery)),
      minutes: last,
      queries: [fires(alert, at + 1), isQuiet(alert, last)],
    },
  ];
}

/** The first or last round without which a collector can't be read: of several, the last reads everything. */
const roundOf = (collector: string, which: 0 | -1 = 0) => {
  const kind = collectors.find(({ name }) => name === collector);
  const rounds = kind ? Object.keys(kind.rounds(kind.options.parse({}))) : [];
  const round = rounds.filter(round => !kind?.auxiliary?.includes(round)).at(which);
  return `collector="${collector}",round="${round}"`;
};

/** What is seen of a service that goes dark: gauges are withdrawn in the end, counters stand still. */
function darkFrom(blindFrom: number, input: Input): Input {
  return Object.fromEntries(
    Object.entries(input).map(([series, values]) => [
      series,
      minute => {
        if (minute <= blindFrom || (!isCounter(series) && !isWithdrawn(series))) return values(minute);
        if (isCounter(series)) return values(blindFrom);
        return minute < blindFrom + 5 ? values(blindFrom) : undefined;
      },
    ]),
  );
}

const blindState = (labels: string, blindFrom: number, back: number): Input => ({
  [`delivery_collector_data_stale{${labels}}`]: m => Number(m >= blindFrom + 1 && m < back),
  [`delivery_collector_data_timestamp_seconds{${labels}}`]: m => 60 * Math.min(m, blindFrom),
});

/** The service goes dark a minute before the alert would fire, and as soon as it is pending at all. */
function pendingCases({ alert, fires: input, at }: AlertCase): RuleTest[] {
  const { collector } = alertNamed(alert);
  if (!collector) return [];
  const patience = minutesOf(alertNamed(alert).for);
  return [...new Set([Math.min(at - 2, Math.max(1, at - patience)), at - 2])].map(dark => ({
    name: `${alert} does not begin while the service is dark from minute ${dark} on`,
    input: { ...replica(darkFrom(dark, input)), ...replica(blindState(roundOf(collector), dark, at + 300)) },
    minutes: at + 240,
    queries: [neverFired(alert, at + 240)],
  }));
}

const minutesOf = (text = '0m') => Number.parseInt(text, 10) * (text.endsWith('h') ? 60 : 1);

/** The collector can't be read from two minutes after the alert on. */
function blindCases({ alert, fires: input, at, idle, recovery = idle }: AlertCase): RuleTest[] {
  const { collector } = alertNamed(alert);
  if (!collector) return [];
  const [blindFrom, back] = [at + 2, at + 120];
  const labels = roundOf(collector);
  const seen = darkFrom(blindFrom, input);
  const state = blindState(labels, blindFrom, back);
  // A restart while nothing can be read: nothing is stale yet, but nothing was ever read, either.
  const restart = at + 60;
  const restarted: Input = {
    ...Object.fromEntries(
      Object.entries(seen).map(([series, values]) => [
        series,
        m => (isWithdrawn(series) && m > restart ? undefined : restartedAt(restart)(series, values)(m)),
      ]),
    ),
    [`delivery_collector_data_stale{${labels}}`]: m =>
      m >= restart && m < restart + 2 ? undefined : Number(m >= blindFrom + 1 && (m < restart || m > restart + 20)),
    [`delivery_collector_data_timestamp_seconds{${labels}}`]: m => (m < restart ? 60 * blindFrom : undefined),
  };
  const held = `count(ALERTS{alertname="${alert}", alertstate="firing"}) and count(ALERTS{alertname="DeliveryBlind", alertstate="firing"})`;
  return [
    {
      name: `${alert} goes on firing while the data is withdrawn, and ends when it is back and well`,
      input: { ...replica(then(seen, back, recovery)), ...replica(state) },
      minutes: back + 120,
      queries: [
        ...[4, 30, 90, 117].map(minute => fires(alert, at + minute)),
        { expr: held, minute: at + 90, expected: [{ labels: '{}', value: 1 }] },
        isQuiet(alert, back + 110),
      ],
    },
    {
      name: `${alert} goes on firing through a restart while the data is withdrawn`,
      input: { ...replica(restarted), ...replica({}) },
      minutes: restart + 60,
      queries: [1, 2, 5, 16, 20, 25, 60].map(minute => fires(alert, restart + minute)),
    },
  ];
}

/** What ends the alert comes of a read that met rows which it could not read, and then of one that could. */
function partialCases({ alert, fires: input, at, idle, recovery = idle }: AlertCase): RuleTest[] {
  const { collector } = alertNamed(alert);
  if (!collector) return [];
  const [from, whole] = [at + 2, at + 120];
  const labels = roundOf(collector, -1);
  const state: Input = {
    [`delivery_collector_success{${labels}}`]: () => 1,
    [`delivery_collector_data_complete{${labels}}`]: m => Number(m < from || m >= whole),
    // Others read well meanwhile, and one fails: neither is a reason.
    'delivery_collector_success{collector="account",round="tail"}': () => 0,
    'delivery_collector_data_complete{collector="account",round="tail"}': () => 0,
  };
  return [
    {
      name: `${alert} goes on firing while rows can not be read, and ends when they can`,
      input: replica({ ...then(input, from, recovery), ...state }),
      minutes: whole + 120,
      queries: [
        ...[4, 30, 90, 117].map(minute => fires(alert, at + minute)),
        { expr: firingBlind, minute: at + 90, expected: [] },
        isQuiet(alert, whole + 110),
      ],
    },
  ];
}
const firingBlind = 'count(ALERTS{alertname="DeliveryBlind", alertstate="firing"})';

describe.skipIf(!requireProgram('promtool'))('alerts, by promtool test rules', () => {
  it.each(alertCases)('$alert', each => {
    const { alert, below, idle } = each;
    const tests = [
      ...firingCases(each),
      ...blindCases(each),
      ...pendingCases(each),
      ...partialCases(each),
      ...quiet(each, 'nothing is there', {}),
      ...quiet(each, 'at rest', idle),
      ...Object.entries(below).flatMap(([why, input]) => quiet(each, why, input)),
    ];
    expect(testRules([alert, 'DeliveryBlind'], [firstFiring(each), asJobs(tests)])).toBe('');
  });
});

it('has cases for every alert', () => {
  expect(['DeliveryAgentDown', ...alertCases.map(({ alert }) => alert)].sort()).toEqual(
    alerts.map(({ name }) => name).sort(),
  );
  expect(alertingRule(alertNamed('DeliveryBlind')).expr).not.toContain('ALERTS');
});

it('holds every alert on what the service says, and no other: what the agent knows of itself is never stale', () => {
  expect(alerts.filter(({ collector }) => !collector).map(({ name }) => name)).toEqual([
    'DeliveryAgentDown',
    'DeliveryBlind',
    'DeliveryCollectorStale',
    'DeliveryTokenRejected',
    'DeliveryRateLimited',
    'DeliveryListsMissing',
    'DeliveryRowsRejected',
    'DeliveryAutoCancelBreakerOpen',
    'DeliveryAutoCancelUnresolved',
    'DeliveryNotificationsFailing',
    // A hole stays one.
    'DeliveryEventLogGap',
  ]);
});
