import { describe, expect, it } from 'vitest';
import { requireProgram } from '../support/prometheus.ts';
import type { Input, Values } from './cases/case.ts';
import { fires, firesIn, isQuiet, isQuietFrom, JOB, neverFired, type RuleTest, testRules } from './promtool.ts';

/** Test cases of alerts about agents and agent-wide state, with inputs that must make them fire and inputs that must not. */

const HOUR = 60;
const minutes = 4 * HOUR;
const of = (name: string, instance: string, labels = '') =>
  `${name}{job="${JOB}",instance="${instance}"${labels === '' ? '' : `,${labels}`}}`;
const up = (instance: string) => of('up', instance);
const account = (name: string, instance = 'one') => of('delivery_up', instance, `account="${name}"`);
const always = () => 1;
const until =
  (end: number): Values =>
  minute =>
    minute < end ? 1 : undefined;

const blind = (name: string, from: number, instance = 'one'): Input => {
  const round = `account="${name}",collector="dlq",round="new"`;
  return {
    [account(name, instance)]: minute => Number(minute < from),
    [of('delivery_collector_data_stale', instance, round)]: minute => Number(minute >= from),
    [of('delivery_collector_data_timestamp_seconds', instance, round)]: minute => 60 * Math.min(minute, from),
  };
};

/** An agent that restarts every two minutes, each time before its first read is complete. */
const crashing: Input = {
  [up('one')]: minute => minute % 2,
  [of('process_start_time_seconds', 'one')]: minute => (minute % 2 === 1 ? 60 * minute : undefined),
  [account('a')]: minute => (minute % 2 === 1 ? 0 : undefined),
  [of('delivery_collector_data_stale', 'one', 'account="a",collector="dlq",round="new"')]: minute =>
    minute % 2 === 1 ? 0 : undefined,
};

const leader = (instance: string) => of('delivery_watch_leader', instance, 'schema="a"');
const renewals = (instance: string, outcome: string) =>
  of('delivery_watch_lease_renewals_total', instance, `outcome="${outcome}"`);
/** Twelve lease renewals a minute, which fail between the minutes `from` and `to`. */
const renewing = (instance: string, from = 9999, to = 9999): Input => ({
  [renewals(instance, 'ok')]: minute => 12 * (Math.min(minute, from) + Math.max(0, minute - to)),
  [renewals(instance, 'failed')]: minute => 12 * Math.max(0, Math.min(minute, to) - from),
});
const of01 = (is: (minute: number) => boolean) => (minute: number) => Number(is(minute));

/** Expects that DeliveryInstanceDown fires exactly once, with this severity. */
const firesAs = (severity: string, minute: number) => ({
  expr: 'count by (severity) (ALERTS{alertname="DeliveryInstanceDown", alertstate="firing"})',
  minute,
  expected: [{ labels: `{severity="${severity}"}`, value: 1 }],
});

const CASES: Readonly<Record<string, readonly (Omit<RuleTest, 'minutes'> & { readonly minutes?: number })[]>> = {
  DeliveryInstanceDown: [
    {
      name: 'one of two instances is down for ten minutes',
      input: { [up('one')]: minute => Number(minute < 20), [up('two')]: always },
      queries: [isQuiet('DeliveryInstanceDown', 29), fires('DeliveryInstanceDown', 30)],
    },
    {
      name: 'the only instance of its namespace never came up',
      input: { [of('up', 'one', 'namespace="stage"')]: () => 0, [of('up', 'two', 'namespace="prod"')]: always },
      queries: [firesIn('DeliveryInstanceDown', 'stage', 10)],
    },
    {
      name: 'the only agent with an account is down for three hours: critical until it returns',
      input: {
        [up('one')]: minute => Number(minute < 30 || minute >= 210),
        [account('a', 'one')]: minute => (minute < 30 || minute >= 210 ? 1 : undefined),
        [up('two')]: always,
        [account('b', 'two')]: always,
      },
      queries: [
        isQuiet('DeliveryInstanceDown', 39),
        ...[42, 145, 175, 209].map(minute => firesAs('critical', minute)),
        isQuiet('DeliveryInstanceDown', 211),
      ],
    },
    {
      name: 'another agent also has the accounts: a warning',
      input: {
        [up('one')]: minute => Number(minute < 30),
        [account('a', 'one')]: until(30),
        [account('b', 'one')]: until(30),
        [up('two')]: always,
        [account('a', 'two')]: always,
        [up('three')]: always,
        [account('b', 'three')]: minute => (minute < 31 ? undefined : 1),
      },
      queries: [isQuiet('DeliveryInstanceDown', 39), ...[40, 100, minutes].map(minute => firesAs('warning', minute))],
    },
    {
      name: 'the other agent has an account of the same name in another namespace: critical',
      input: {
        [of('up', 'one', 'namespace="prod"')]: minute => Number(minute < 30),
        [of('delivery_up', 'one', 'account="a",namespace="prod"')]: until(30),
        [of('up', 'two', 'namespace="stage"')]: always,
        [of('delivery_up', 'two', 'account="a",namespace="stage"')]: always,
      },
      queries: [firesAs('critical', 42)],
    },
    {
      name: 'is quiet if all instances are down, which is another alert',
      input: { [up('one')]: () => 0, [up('two')]: () => 0 },
      queries: [neverFired('DeliveryInstanceDown', minutes)],
    },
    {
      name: 'is quiet during a short outage and after a target is removed',
      input: {
        [up('one')]: minute => Number(minute < 20 || minute > 27),
        [up('two')]: until(30),
        [up('three')]: always,
      },
      queries: [neverFired('DeliveryInstanceDown', minutes)],
    },
  ],
  DeliveryAgentCrashLooping: [
    {
      name: 'three restarts in half an hour',
      input: { [of('process_start_time_seconds', 'one')]: minute => 600 * Math.floor(Math.max(0, minute - 20) / 10) },
      queries: [isQuiet('DeliveryAgentCrashLooping', 49), fires('DeliveryAgentCrashLooping', 50)],
    },
    {
      name: 'is quiet about two restarts and about one restart of a whole deployment',
      input: {
        [of('process_start_time_seconds', 'one')]: minute => (minute < 30 ? 0 : minute < 35 ? 1800 : 2100),
        [of('process_start_time_seconds', 'two')]: minute => (minute < 31 ? 0 : 1860),
      },
      queries: [neverFired('DeliveryAgentCrashLooping', minutes)],
    },
  ],
  DeliveryDatabaseAway: [
    {
      name: 'fires once while the lease renewals of all three processes fail',
      input: { ...renewing('one', 20, 60), ...renewing('two', 20, 60), ...renewing('three', 20, 60) },
      queries: [
        isQuiet('DeliveryDatabaseAway', 22),
        fires('DeliveryDatabaseAway', 24),
        fires('DeliveryDatabaseAway', 60),
        isQuietFrom('DeliveryDatabaseAway', 62, minutes),
      ],
    },
    {
      name: 'is quiet if two of three replicas lose the database for hours (another alert) and the third for a minute',
      input: { ...renewing('one', 20), ...renewing('two', 40, 41), ...renewing('three', 20) },
      queries: [neverFired('DeliveryDatabaseAway', minutes)],
    },
  ],
  DeliveryNoLeader: [
    {
      name: 'no process leads a schema while another schema of the same job has a leader',
      input: {
        [leader('one')]: of01(minute => minute < 20),
        [leader('two')]: () => 0,
        [of('delivery_watch_leader', 'other', 'schema="b"')]: always,
      },
      queries: [isQuiet('DeliveryNoLeader', 20), fires('DeliveryNoLeader', 21)],
    },
    {
      name: 'the leader is gone and the standby does not take over',
      input: { [leader('one')]: until(20), [leader('two')]: () => 0 },
      queries: [isQuiet('DeliveryNoLeader', 20), fires('DeliveryNoLeader', 23), fires('DeliveryNoLeader', 27)],
    },
    {
      name: 'is quiet during a release, a takeover one minute after a kill, and a rolling update',
      input: {
        [leader('one')]: of01(minute => minute < 20),
        [leader('two')]: minute => (minute < 40 ? Number(minute >= 21) : Number.NaN),
        [leader('three')]: of01(minute => minute >= 42 && minute < 60),
        [leader('four')]: minute => (minute < 61 ? undefined : 1),
      },
      queries: [neverFired('DeliveryNoLeader', minutes), neverFired('DeliveryTwoLeaders', minutes)],
    },
    {
      name: 'is quiet if no process of the schema is left, which is another alert',
      input: { [leader('one')]: until(20), [leader('two')]: minute => (minute < 20 ? 0 : undefined) },
      queries: [neverFired('DeliveryNoLeader', minutes)],
    },
  ],
  DeliveryTwoLeaders: [
    {
      name: 'a leader without database access continues until the database is back',
      input: { [leader('one')]: of01(minute => minute < 60), [leader('two')]: of01(minute => minute >= 20) },
      queries: [
        isQuiet('DeliveryTwoLeaders', 24),
        fires('DeliveryTwoLeaders', 25),
        fires('DeliveryTwoLeaders', 59),
        isQuietFrom('DeliveryTwoLeaders', 62, minutes),
      ],
    },
    {
      name: 'is quiet if successive leaders are killed, and about leaders in two namespaces or of two schemas',
      input: {
        [leader('one')]: minute => (minute < 20 ? 1 : Number.NaN),
        [leader('two')]: minute => (minute < 24 ? Number(minute >= 20) : Number.NaN),
        [leader('three')]: of01(minute => minute >= 24),
        [of('delivery_watch_leader', 'one', 'schema="a",namespace="stage"')]: always,
        [of('delivery_watch_leader', 'other', 'schema="b"')]: always,
      },
      queries: [neverFired('DeliveryTwoLeaders', minutes)],
    },
  ],
  DeliveryConfigReloadFailed: [
    {
      name: 'one of two agents failed to reload',
      input: {
        [of('delivery_watch_config_last_reload_successful', 'one')]: minute => Number(minute < 10),
        [of('delivery_watch_config_last_reload_successful', 'two')]: always,
      },
      queries: [isQuiet('DeliveryConfigReloadFailed', 14), fires('DeliveryConfigReloadFailed', 15)],
    },
    {
      name: 'is quiet if the configuration is fixed within minutes',
      input: {
        [of('delivery_watch_config_last_reload_successful', 'one')]: minute => Number(minute < 10 || minute > 13),
      },
      queries: [neverFired('DeliveryConfigReloadFailed', minutes)],
    },
  ],
  DeliveryStoreFailing: ['0', '1'].map(complete => ({
    name: `rounds fail; data_complete is ${complete}`,
    input: {
      [of('delivery_collector_success', 'one', 'account="a",collector="dlq",round="new"')]: () => 0,
      [of('delivery_collector_data_complete', 'one', 'account="a",collector="dlq",round="new"')]: () =>
        Number(complete),
      [of('delivery_collector_success', 'one', 'account="b",collector="dlq",round="new"')]: () => 1,
      [of('delivery_collector_data_complete', 'one', 'account="b",collector="dlq",round="new"')]: () => 1,
    },
    queries:
      complete === '1'
        ? [isQuiet('DeliveryStoreFailing', 1), fires('DeliveryStoreFailing', 2)]
        : [neverFired('DeliveryStoreFailing', minutes)],
  })),
  DeliveryServiceUnavailable: [
    {
      name: 'three of five accounts',
      input: Object.assign({}, ...['a', 'b', 'c'].map(name => blind(name, 10)), blind('d', 9999), blind('e', 9999)),
      queries: [isQuiet('DeliveryServiceUnavailable', 10), fires('DeliveryServiceUnavailable', 11)],
    },
    {
      name: 'is quiet if the shared token of three of five accounts is revoked, which is another alert',
      input: {
        ...Object.assign({}, ...['a', 'b', 'c'].map(name => blind(name, 10)), blind('d', 9999), blind('e', 9999)),
        ...Object.fromEntries(
          ['a', 'b', 'c'].map(name => [of('delivery_token_rejected', 'one', `account="${name}"`), always]),
        ),
      },
      queries: [neverFired('DeliveryServiceUnavailable', minutes)],
    },
    {
      name: 'three of the four accounts with an accepted token, next to five with a revoked one',
      input: {
        ...Object.assign({}, ...['a', 'b', 'c'].map(name => blind(name, 10)), blind('d', 9999)),
        ...Object.fromEntries(
          ['e', 'f', 'g', 'h', 'i'].flatMap(name => [
            [account(name), always],
            [of('delivery_token_rejected', 'one', `account="${name}"`), always],
          ]),
        ),
      },
      queries: [fires('DeliveryServiceUnavailable', 20)],
    },
    {
      name: 'is quiet about three of six accounts',
      input: Object.assign(
        {},
        ...['a', 'b', 'c'].map(name => blind(name, 10)),
        ...['d', 'e', 'f'].map(name => blind(name, 9999)),
      ),
      queries: [
        neverFired('DeliveryServiceUnavailable', minutes),
        { ...fires('DeliveryBlind', 20), expected: [{ labels: '{}', value: 3 }] },
      ],
    },
    {
      name: 'is quiet about two of two accounts',
      input: { ...blind('a', 10), ...blind('b', 10) },
      queries: [neverFired('DeliveryServiceUnavailable', minutes)],
    },
  ],
  DeliveryBlind: [
    {
      name: 'is quiet about a shard that cannot store its data and fires for another that reads nothing',
      input: {
        ...blind('a', 20),
        ...Object.fromEntries(
          [
            ['success', 0],
            ['data_complete', 1],
          ].map(([name, value]) => [
            of(`delivery_collector_${name}`, 'one', 'account="a",collector="dlq",round="new"'),
            () => Number(value),
          ]),
        ),
        ...blind('b', 20, 'two'),
      },
      queries: [
        {
          expr: 'count by (account) (ALERTS{alertname="DeliveryBlind", alertstate="firing"})',
          minute: 30,
          expected: [{ labels: '{account="b"}', value: 1 }],
        },
      ],
    },
    {
      name: 'an agent in a crash loop',
      input: crashing,
      queries: [isQuiet('DeliveryBlind', 30), fires('DeliveryBlind', 40), fires('DeliveryBlind', minutes)],
    },
    {
      name: 'is quiet about an agent with a first complete round of twenty minutes',
      input: {
        ...blind('a', 9999),
        [of('delivery_collector_data_timestamp_seconds', 'one', 'account="a",collector="dlq",round="new"')]: minute =>
          minute < 20 ? undefined : 60 * minute,
      },
      queries: [neverFired('DeliveryBlind', minutes)],
    },
  ],
  DeliveryAgentDown: [
    {
      name: 'an agent dies while blind: one of the two alerts always fires',
      input: {
        [up('one')]: minute => Number(minute < 15),
        ...Object.fromEntries(
          Object.entries(blind('a', 10)).map(([series, values]) => [
            series,
            (minute: number) => (minute < 15 ? values(minute) : undefined),
          ]),
        ),
      },
      minutes: 2 * HOUR,
      queries: [
        {
          expr: 'count_over_time(absent(ALERTS{alertname=~"DeliveryBlind|DeliveryAgentDown",alertstate="firing"})[18m:1m])',
          minute: 30,
          expected: [],
        },
        // Both alerts fire for a short time, because rule groups are evaluated at different times.
        fires('DeliveryBlind', 27),
        fires('DeliveryAgentDown', 27),
        isQuietFrom('DeliveryBlind', 29, 2 * HOUR),
      ],
    },
  ],
};

describe.skipIf(!requireProgram('promtool'))('agent alerts (promtool test rules)', () => {
  it.each(Object.entries(CASES))('%s fires and resolves as expected in each of its test cases', (alert, cases) => {
    const tests = cases.map(test => ({ minutes, ...test, name: `${alert}: ${test.name}` }));
    expect(testRules([alert, 'DeliveryBlind', 'DeliveryTwoLeaders'], tests)).toBe('');
  });
});
