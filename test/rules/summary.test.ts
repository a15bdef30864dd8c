import { expect, it } from 'vitest';
import { defaultSummary } from '../../src/rules/evaluation.ts';
import { alertCondition } from '../../src/rules/options.ts';
import { rule } from './alerting-scene.ts';

const labels = { alertname: 'A', account: 'shop', round: 'full' };

it.each([
  [{ above: { metric: 'delivery_dlq_messages', value: 10 } }, 12, 'delivery_dlq_messages of shop is 12, above 10.'],
  [{ below: { metric: 'delivery_up', value: 1 } }, 0, 'delivery_up of shop is 0, below 1.'],
  [
    { growth: { metric: 'delivery_dlq_messages', over: '1h', atLeast: 10 } },
    12.34567,
    'delivery_dlq_messages of shop grew by 12.35 in 1h.',
  ],
  [
    { age: { metric: 'delivery_dlq_oldest_entered_timestamp_seconds', above: '24h' } },
    90_000,
    'delivery_dlq_oldest_entered_timestamp_seconds of shop is more than 1d ago.',
  ],
  [
    {
      ratio: { part: { metric: 'delivery_a_total' }, whole: { metric: 'delivery_b_total' }, over: '15m', above: 0.05 },
    },
    0.07123,
    'delivery_a_total of shop is 7.1 % of delivery_b_total in 15m, above 5 %.',
  ],
  [
    {
      ratio: {
        part: { metric: 'delivery_a_total', labels: { outcome: 'failed', account: ['eu', 'us'] } },
        whole: { metric: 'delivery_a_total' },
        over: '15m',
        above: 0.05,
      },
    },
    0.07123,
    'delivery_a_total{outcome="failed", account=~"eu|us"} of shop is 7.1 % of delivery_a_total in 15m, above 5 %.',
  ],
  [{ stale: { collector: 'dlq' } }, 1, 'The data of dlq (round full) of shop is stale.'],
])('without an annotation, the summary describes the condition: %j', (when, value, summary) => {
  expect(defaultSummary(rule('A', { when: alertCondition.parse(when) }), labels, value)).toEqual({ summary });
});

it.each(['summary', 'description'])('defaultSummary adds no summary to a rule with a configured %s', name => {
  expect(defaultSummary(rule('A', { annotations: { [name]: 'x', runbook_url: 'y' } }), labels, 1)).toEqual({});
});
