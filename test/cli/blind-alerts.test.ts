import { expect, it } from 'vitest';
import { alertsThatRead } from '../../src/cli/blind-alerts.ts';

it('alertsThatRead finds alerts that read a family directly', () =>
  expect(alertsThatRead(['delivery_watch_leader'])).toEqual(['DeliveryNoLeader']));

it('alertsThatRead finds alerts that read a family through recording rules', () =>
  expect(alertsThatRead(['delivery_problem'])).toContain('DeliveryErrorBudgetFastBurn'));

it('alertsThatRead finds alerts of an optional set only if the set is selected', () => {
  expect(alertsThatRead(['delivery_messages_finished_total'])).toEqual([]);
  expect(alertsThatRead(['delivery_messages_finished_total'], [], ['slo'])).toEqual([
    'DeliverySloFastBurn',
    'DeliverySloSlowBurn',
  ]);
});

it('alertsThatRead finds configured alerts that read a family', () => {
  const more = [
    { alert: 'Rate', expr: 'max by (account) (delivery_flow_control_rate_limit{flow_control_key="k"}) > 5' },
    { alert: 'Histogram', expr: 'rate(delivery_message_queue_wait_seconds_count[5m]) == 0' },
    { alert: 'Other', expr: 'delivery_dlq_messages > 0' },
  ];
  const found = alertsThatRead(['delivery_flow_control_rate_limit', 'delivery_message_queue_wait_seconds'], more);
  expect(found).toContain('Rate');
  expect(found).toContain('Histogram');
  expect(found).not.toContain('Other');
});

it('alertsThatRead does not match a prefix of a family name', () =>
  expect(alertsThatRead(['delivery_dlq'])).toEqual([]));

it('alertsThatRead finds no alert for a family that only dashboards show', () =>
  expect(alertsThatRead(['delivery_watch_api_response_bytes_total'])).toEqual([]));
