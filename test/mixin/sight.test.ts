import { describe, expect, it } from 'vitest';
import { decidingRounds } from '../../mixin/alert.ts';
import { readingAlerts } from '../../mixin/reading-alerts.ts';
import { collectors } from '../../src/collectors/index.ts';
import { parseDuration } from '../../src/kit/duration.ts';
import { createCollectorState } from '../../src/scheduler/board.ts';
import { stalenessOptions } from '../../src/scheduler/options.ts';
import { requireProgram } from '../support/prometheus.ts';
import { alertingRule } from './alerting-rule.ts';
import type { Input } from './cases/case.ts';
import { fires, isQuiet, JOB, replica, testRules } from './promtool.ts';

const up = (instance: string) => `up{job="${JOB}",instance="${instance}"}`;
const stale = '{collector="dlq",round="new"}';
/** Series of a replica whose reads fail from minute 20 on. */
const state: Input = {
  [`delivery_collector_data_stale${stale}`]: minute => Number(minute >= 20),
  [`delivery_collector_data_timestamp_seconds${stale}`]: minute => 60 * Math.min(minute, 20),
};

describe.skipIf(!requireProgram('promtool'))('availability of agents and data (promtool test rules)', () => {
  it('DeliveryAgentDown fires when all agents are down or missing', () => {
    const alert = 'DeliveryAgentDown';
    const expected = {
      exp_labels: { job: JOB, severity: 'critical' },
      exp_annotations: alertingRule(alert).annotations,
    };
    const minutes = 40;
    expect(
      testRules(
        [alert],
        [
          {
            name: 'down',
            input: { [up('one')]: () => 0 },
            minutes,
            alerts: [{ alert, minute: 10, expected: [expected] }],
            queries: [isQuiet(alert, 9)],
          },
          { name: 'missing', input: {}, minutes, queries: [isQuiet(alert, 9), fires(alert, 10)] },
          {
            name: 'both down',
            input: { [up('one')]: () => 0, [up('two')]: () => 0 },
            minutes,
            queries: [fires(alert, 10)],
          },
          { name: 'another job', input: { 'up{job="other"}': () => 1 }, minutes, queries: [fires(alert, 10)] },
          {
            name: 'a short outage',
            input: { [up('one')]: m => Number(m < 10 || m >= 19) },
            minutes,
            queries: [19, 20, 40].map(m => isQuiet(alert, m)),
          },
          {
            name: 'one of two',
            input: { [up('one')]: () => 0, [up('two')]: () => 1 },
            minutes,
            queries: [isQuiet(alert, 40)],
          },
          { name: 'up', input: { [up('one')]: () => 1 }, minutes, queries: [isQuiet(alert, 40)] },
        ],
      ),
    ).toBe('');
  });

  it('DeliveryBlind fires only if both replicas are blind', () => {
    const sees: Input = { ...state, [`delivery_collector_data_stale${stale}`]: () => 0 };
    const input = { ...replica(state), ...replica(sees, 'two:10922') };
    const both = { ...replica(state), ...replica(state, 'two:10922') };
    const blind = (value: number) => ({
      expr: 'account:delivery_blind:min',
      minute: 60,
      expected: [
        {
          labels: `account:delivery_blind:min{job="${JOB}",account="a",collector="dlq"}`,
          value,
        },
      ],
    });
    const alerts = ['DeliveryBlind', 'DeliveryDlqGrowing'];
    expect(
      testRules(alerts, [
        { name: 'one', input, minutes: 60, queries: [isQuiet('DeliveryBlind', 60), blind(0)] },
        { name: 'both', input: both, minutes: 60, queries: [fires('DeliveryBlind', 22), blind(1)] },
      ]),
    ).toBe('');
  });

  it('an alert that keeps firing on stale data says so in its description, and resolves when its account is removed', () => {
    const alert = 'DeliveryFailureCallbackStuck';
    const input: Input = {
      ...state,
      delivery_dlq_failure_callbacks_suspected: minute => (minute < 30 ? 2 : undefined),
    };
    const withoutData: Input = Object.fromEntries(
      Object.entries(input).map(([series, values]) => [series, m => (m < 60 ? values(m) : undefined)]),
    );
    const expected = {
      exp_labels: { job: JOB, account: 'a', collector: 'dlq', severity: 'warning' },
      exp_annotations: {
        summary: 'Failure callbacks of a seem stuck.',
        description: 'Still firing: current data does not show whether the problem is over.',
      },
    };
    expect(
      testRules(
        [alert],
        [
          {
            name: 'stale',
            input: replica(input),
            minutes: 300,
            alerts: [{ alert, minute: 300, expected: [expected] }],
          },
          {
            name: 'account removed',
            input: replica(withoutData),
            minutes: 120,
            queries: [fires(alert, 60), isQuiet(alert, 90)],
          },
        ],
      ),
    ).toBe('');
  });

  it('recording rules count each message once if two replicas expose the same counters', () => {
    const input: Input = {
      delivery_event_log_counting: () => 1,
      'delivery_messages_finished_total{outcome="delivered",destination="a"}': minute => 3 * minute,
      'delivery_messages_finished_total{outcome="failed",destination="b"}': minute => minute,
    };
    const recorded = (record: string, value: number, objective = ', objective="delivered"') => ({
      expr: record,
      minute: 60,
      expected: [{ labels: `${record}{job="${JOB}", account="a"${objective}}`, value }],
    });
    expect(
      testRules(
        ['DeliveryErrorBudgetFastBurn'],
        [
          {
            name: 'once',
            input: { ...replica(input), ...replica(input, 'two:10922') },
            minutes: 60,
            queries: [
              recorded('account:delivery_bad:increase1m', 1),
              recorded('account:delivery_ended:increase1m', 4, ''),
              recorded('account:delivery_bad:ratio1h', 0.25),
            ],
          },
        ],
      ),
    ).toBe('');
  });
});

it('DeliveryBlind fires for every collector before its first data is withdrawn', () => {
  const pending = parseDuration(readingAlerts.find(({ name }) => name === 'DeliveryBlind')?.for ?? '') ?? NaN;
  // Maximum delay if scrapes and evaluations take place every 30 seconds (ms).
  const late = 60_000;
  for (const { name, auxiliary = [], rounds, options } of collectors) {
    const cadences = Object.entries(rounds(options.parse({}))).filter(([round]) => !auxiliary.includes(round));
    expect(cadences.every(([round]) => decidingRounds.includes(round))).toBe(true);
    for (const [round, cadence] of cadences) {
      let now = 0;
      const slot = createCollectorState(
        { account: 'a', collector: name, auxiliary },
        { [round]: cadence },
        stalenessOptions.parse({}),
        { monotonic: () => now },
      );
      slot.observed(round, { at: now, facts: {} });
      slot.succeeded(round, { durationSeconds: 0.1 });
      const until = (happened: () => boolean) => {
        const from = now;
        while (!happened()) now += 1000;
        return now - from;
      };
      until(() => slot.status().rounds[0]?.stale === true);
      const left = until(() => slot.visible().now === undefined);
      expect(left, `${name} ${round}`).toBeGreaterThan(pending + late);
    }
  }
});
