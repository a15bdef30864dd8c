import { expect, it } from 'vitest';
import { defaultSummary } from '../../src/rules/evaluation.ts';
import { alertCondition } from '../../src/rules/options.ts';
import { rule } from './alerting-scene.ts';

it.each([
  [
    { above: { metric: 'delivery_dlq_messages', value: 10 } },
    12,
    'delivery_dlq_messages of shop: 12 (condition above).',
  ],
  [
    {
      ratio: { part: { metric: 'delivery_a_total' }, whole: { metric: 'delivery_b_total' }, over: '15m', above: 0.05 },
    },
    0.0712345,
    'delivery_a_total / delivery_b_total of shop: 0.07123 (condition ratio).',
  ],
  [{ stale: { collector: 'dlq' } }, 1, 'delivery_collector_data_stale of shop: 1 (condition stale).'],
])('without an annotation, the summary describes the condition: %j', (when, value, summary) => {
  expect(defaultSummary(rule('A', { when: alertCondition.parse(when) }), 'shop', value)).toEqual({ summary });
});

it.each(['summary', 'description'])('defaultSummary adds no summary to a rule with a configured %s', name => {
  expect(defaultSummary(rule('A', { annotations: { [name]: 'x', runbook_url: 'y' } }), 'shop', 1)).toEqual({});
});
