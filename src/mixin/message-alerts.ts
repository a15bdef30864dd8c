import { highest, increase, latest, type RecordingRule, rate, series, total } from '../alerts/promql.ts';
import { dlq } from '../collectors/dlq/dlq.ts';
import { events } from '../collectors/events/events.ts';
import { flowControl } from '../collectors/flow-control.ts';
import { formatLe } from '../metrics/family.ts';
import type { Alert } from './alert.ts';

/** 99 % of messages are to be delivered: shares of failed ones that spend the budget of 30 days 14.4 and 6 times too fast. */
const FAST_BURN = 0.144;
const SLOW_BURN = 0.06;
/** Seconds after its due time within which a message is on time. */
const ON_TIME = 300;

const { finished, total: logged, timeToDeliver, newest, gaps } = events.families;

/** Failed messages, or failed and delivered ones: cancelled ones say nothing of deliveries. */
const failed = (of: (selector: string) => string) => total(finished, of, { where: { outcome: 'failed' } });
const judged = (of: (selector: string) => string) => total(finished, of, { where: { outcome: /delivered|failed/ } });

const errorRatio = (window: string): RecordingRule => ({
  record: `account:delivery_messages_failed_per_finished:ratio_rate${window}`,
  expr: `${failed(rate(window))} / ${judged(rate(window))}`,
});

const finishedInAnHour: RecordingRule = {
  record: 'account:delivery_messages_finished:increase1h',
  expr: judged(increase('1h')),
};
const ratios = { '5m': errorRatio('5m'), '30m': errorRatio('30m'), '1h': errorRatio('1h'), '6h': errorRatio('6h') };

export const messageRecords: readonly RecordingRule[] = [...Object.values(ratios), finishedInAnHour];

const inState = (state: string, of: (selector: string) => string) => total(logged, of, { where: { state } });
const byDestination = (of: (selector: string) => string, state: RegExp | string) =>
  total(logged, of, { where: { state, destination: /.+/ }, keep: ['destination'] });

const timed = (suffix: '_bucket' | '_count') =>
  total(timeToDeliver, rate('30m'), { suffix, where: suffix === '_bucket' ? { le: formatLe(ON_TIME) } : {} });

/** What the event log says of deliveries. */
export const messageAlerts: readonly Alert[] = [
  {
    name: 'DeliveryDlqArrivalRatioHigh',
    severity: 'critical',
    collector: 'events',
    expr: `${failed(increase('10m'))} / ${judged(increase('10m'))} > 0.05\nand ${failed(increase('10m'))} >= 10`,
    for: '5m',
    summary: 'High failure rate in {{ $labels.account }}: messages go to the dead-letter queue.',
    description:
      '{{ $value | humanizePercentage }} of the messages that finished in {{ $labels.account }} in the last 10 minutes failed permanently.',
    dashboard: 'overview',
  },
  {
    name: 'DeliveryErrorBudgetFastBurn',
    severity: 'critical',
    collector: 'events',
    expr: `${ratios['1h'].record} > ${FAST_BURN}\nand ${ratios['5m'].record} > ${FAST_BURN}\nand ${finishedInAnHour.record} > 50`,
    for: '2m',
    keepFiringFor: '12m',
    summary: '{{ $labels.account }} is burning its 30-day error budget fast: exhausted in two days.',
    description:
      '{{ $value | humanizePercentage }} of the messages of {{ $labels.account }} failed in the last hour; the objective is 1%.',
    dashboard: 'overview',
  },
  {
    name: 'DeliveryErrorBudgetSlowBurn',
    severity: 'warning',
    collector: 'events',
    expr: `${ratios['6h'].record} > ${SLOW_BURN}\nand ${ratios['30m'].record} > ${SLOW_BURN}\nand ${finishedInAnHour.record} > 20`,
    for: '15m',
    summary: '{{ $labels.account }} is burning its 30-day error budget: exhausted in five days.',
    description:
      '{{ $value | humanizePercentage }} of the messages of {{ $labels.account }} failed in the last six hours; the objective is 1%.',
    dashboard: 'overview',
  },
  {
    name: 'DeliveryLatencyHigh',
    severity: 'warning',
    collector: 'events',
    expr: `1 - ${timed('_bucket')} / ${timed('_count')} > 0.05\nand ${total(timeToDeliver, increase('30m'), { suffix: '_count' })} > 50`,
    for: '15m',
    summary: 'High delivery latency in {{ $labels.account }}.',
    description:
      '{{ $value | humanizePercentage }} of the messages delivered in {{ $labels.account }} in the last 30 minutes took longer than five minutes.',
    dashboard: 'overview',
  },
  {
    name: 'DeliveryRetryRatioHigh',
    severity: 'warning',
    collector: 'events',
    expr: `${inState('retry', increase('15m'))} / ${inState('active', increase('15m'))} > 0.25\nand ${inState('active', increase('15m'))} > 40`,
    for: '15m',
    summary: 'High retry rate in {{ $labels.account }}.',
    description:
      '{{ $value | humanizePercentage }} of the delivery attempts in {{ $labels.account }} in the last 15 minutes led to a retry. Messages that keep failing go to the dead-letter queue once their retries are exhausted.',
    dashboard: 'overview',
  },
  {
    name: 'DeliveryStalled',
    severity: 'critical',
    collector: 'events',
    expr: `${inState('created', increase('30m'))} > 20\nand ${total(finished, increase('30m'))} == 0`,
    for: '10m',
    summary: '{{ $labels.account }}: messages arriving, none completing.',
    description:
      '{{ $value | printf "%.0f" }} messages were created in {{ $labels.account }} in the last 30 minutes; none was delivered, failed or cancelled.',
    dashboard: 'overview',
  },
  {
    name: 'DeliveryDestinationFailing',
    severity: 'warning',
    collector: 'events',
    expr: `${byDestination(increase('15m'), 'error')} / ${byDestination(increase('15m'), /delivered|error/)} > 0.5\nand ${byDestination(increase('15m'), 'error')} >= 10`,
    for: '5m',
    // Retries come further and further apart: that nothing is tried is no recovery. A delivery is,
    // and is seen for longer than the alert goes on firing.
    heldBy: {
      on: ['job', 'account', 'destination'],
      expr: `${byDestination(increase('30m'), 'delivered')} == 0`,
    },
    summary: 'Destination {{ $labels.destination }} of {{ $labels.account }} is failing.',
    description:
      '{{ $value | humanizePercentage }} of the delivery attempts to {{ $labels.destination }} in {{ $labels.account }} in the last 15 minutes failed. Resolves when a message is delivered there again.',
    dashboard: 'overview',
  },
  {
    name: 'DeliveryEventLogGap',
    severity: 'warning',
    expr: `${highest(increase('1h')(series(gaps)))} > 0`,
    summary: 'Gap in the event log of {{ $labels.account }}.',
    description:
      'Gaps in the event log of {{ $labels.account }} in the last hour: {{ $value | printf "%.0f" }}. Counters of events are too low.',
    dashboard: 'agent',
  },
  {
    name: 'DeliveryEventLogStale',
    severity: 'warning',
    collector: 'events',
    // Entries and waitlists move only because messages do, and then there are events; an account at rest has neither.
    expr: `time() - ${highest(latest(series(newest)))} > 900\nand on (job, account) (${highest(increase('15m')(series(dlq.families.entered)))} > 0 or max without (instance, pod, replica, flow_control_key) (changes(${series(flowControl.families.waitlistSize)}[15m])) > 0)`,
    for: '5m',
    summary: 'The event log of {{ $labels.account }} has no new events although messages move.',
    description:
      'The newest event of {{ $labels.account }} is {{ $value | humanizeDuration }} old, although dead letters arrive or waitlists change. Metrics from the event log lag.',
    dashboard: 'agent',
  },
];
