import type { ShippedRule } from '../src/cli/shipped.ts';
import { events } from '../src/collectors/events/events.ts';
import { formatDuration } from '../src/kit/duration.ts';
import { objectiveFamilies } from '../src/metrics/objectives.ts';
import { BURN_WINDOWS, type BurnWindows, MIN_BAD } from '../src/metrics/thresholds.ts';
import { highestOf, type Matchers, type QueriedFamily, series } from '../src/rules/promql.ts';
import { placeholder } from './placeholder.ts';

const due = { name: 'delivery_messages_due_total', labels: [] } as const;
const onTime = { name: 'delivery_messages_on_time_total', labels: [] } as const;
const { finished } = events.families;

const BUDGET = 'delivery_budget:ratio';
const [hour, sixHours] = BURN_WINDOWS.fast;
const threeDays = BURN_WINDOWS.slow[1];
const badIn = (window: string) => `delivery_bad:ratio${window}`;

/** Returns a counter's increase, summed over processes. Only the leader counts, and its successor continues the counters. */
const risen = <L extends string>(family: QueriedFamily<L>, window: string, where: Matchers<L> = {}) =>
  `sum by (cluster, namespace, job, account) (increase(${series(family, where)}[${window}]))`;

/** Returns the share of bad messages in a window; absent for fewer than `MIN_BAD` bad messages. */
const shares = (window: string): readonly ShippedRule[] => [
  {
    record: badIn(window),
    labels: { objective: 'delivered' },
    expr: `(${risen(finished, window, { outcome: 'failed' })} >= ${MIN_BAD})\n/ ${risen(finished, window, { outcome: /delivered|failed/ })}`,
  },
  {
    record: badIn(window),
    labels: { objective: 'on_time' },
    expr: `(${risen(due, window)} - ${risen(onTime, window)} >= ${MIN_BAD})\n/ ${risen(due, window)}`,
  },
];

const windows = [hour, sixHours, threeDays].map(({ long }) => formatDuration(long));

const burns = ({ times }: BurnWindows, { long }: Pick<BurnWindows, 'long'>) =>
  `${badIn(formatDuration(long))} > ${times} * ${BUDGET}`;

const alert = (name: string, severity: string, expr: string, summary: string): ShippedRule => ({
  alert: name,
  expr,
  labels: { severity },
  annotations: {
    summary,
    runbook_url: `${placeholder('runbooks')}/DeliveryErrorBudget${severity === 'critical' ? 'Fast' : 'Slow'}Burn.md`,
  },
});

/** Optional rules on error budgets, for teams that keep their objectives in Prometheus. The budget period is 30 days. */
export const sloRules: readonly ShippedRule[] = [
  { record: BUDGET, expr: `1 - ${highestOf(series(objectiveFamilies.ratio), objectiveFamilies.ratio.labels)}` },
  ...windows.flatMap(shares),
  alert(
    'DeliverySloFastBurn',
    'critical',
    `${burns(hour, hour)}\nor ${burns(sixHours, sixHours)} and ${burns(sixHours, hour)}`,
    '{{ $value | humanizePercentage }} of the messages of {{ $labels.account }} miss the objective {{ $labels.objective }}. At this rate, the error budget is spent within days.',
  ),
  alert(
    'DeliverySloSlowBurn',
    'warning',
    `${burns(threeDays, threeDays)} and ${burns(threeDays, sixHours)}`,
    '{{ $value | humanizePercentage }} of the messages of {{ $labels.account }} miss the objective {{ $labels.objective }}. This is more than the objective allows.',
  ),
];
