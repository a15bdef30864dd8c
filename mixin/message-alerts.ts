import { dlq } from '../src/collectors/dlq/dlq.ts';
import { events } from '../src/collectors/events/events.ts';
import { flowControl } from '../src/collectors/flow-control/flow-control.ts';
import { FEWEST_BAD, LOG_BEHIND, MOST_BAD, RETRIES } from '../src/metrics/thresholds.ts';
import { BLIND, highest, highestOf, increase, onAccount, perReplica, series } from '../src/rules/promql.ts';
import { type Alert, ifAbove0 } from './alert.ts';
import { badRatio, budget, burning, counted } from './message-records.ts';
import { riseAboveLowest } from './promql.ts';
import { BURN_ALERTS, type BurnAlert, type Window } from './thresholds.ts';
import { ifComplete, judgedIn } from './windows.ts';

const { total: logged, overdueNow, newest, gaps } = events.families;

/** Windows in texts. */
const WORDS: Readonly<Partial<Record<Window, string>>> = {
  '1h': 'hour',
  '6h': 'six hours',
  '1d': 'day',
  '3d': 'three days',
};

/** An alert on an error budget. `bad`: words for its messages. `unlessFired`: not within six hours of that alert. */
function burnAlert(name: keyof typeof BURN_ALERTS, bad: string, unlessFired?: keyof typeof BURN_ALERTS) {
  const { objective, burns, for: pending, keepFiringFor }: BurnAlert = BURN_ALERTS[name];
  const records = burns.map(burn => burning(objective, burn));
  const expr = records.map(record => `${record} > 0`).join(' or ');
  const fired = `last_over_time(ALERTS{alertname="${unlessFired}", alertstate="firing"}[6h])`;
  const texts = burns.map(burn =>
    ifAbove0(burning(objective, burn), `In the last ${WORDS[burn.long]} {{ . | humanizePercentage }} ${bad}. `),
  );
  return {
    name,
    for: pending,
    keepFiringFor,
    collector: 'events',
    expr: unlessFired === undefined ? expr : `(${expr})\nunless ${onAccount()} ${fired}`,
    judged: `(${records.join(' and ')})`,
    text: texts.join(''),
    dashboard: 'overview',
  } as const;
}

/**
 * The highest value of the replicas with a complete window. `labels`: labels of the vector in addition to the target's.
 * `kept`: labels of the result.
 */
const whole = (expr: string, window: Window, labels: readonly string[] = [], kept = labels) =>
  highestOf(`(${expr}) ${ifComplete(window, labels)}`, kept);

const inState = (state: string | RegExp, window: Window) => perReplica(logged, increase(window), { where: { state } });
const byDestination = (state: string | RegExp, window: Window) =>
  perReplica(logged, increase(window), { where: { state, destination: /.+/ }, keep: ['destination'] });

/** 1 if no replica reads the other data that changes with messages. */
const movementUnread = series(BLIND, { collector: ['dlq', 'flow_control'] });

const FAILED = 'of the messages of {{ $labels.account }} failed';
const LATE = 'of the messages of {{ $labels.account }} missed their on-time target';
const AT_THIS_RATE = 'At this rate the error budget of its objective is spent before the objective’s window ends.';

/** Slow burns do not follow a fast one: they would only report its rest. */
const budgetAlerts = (
  [
    ['DeliveryErrorBudgetFastBurn', 'core', 'critical', 'fast: messages fail', FAILED],
    ['DeliveryErrorBudgetSlowBurn', 'core', 'warning', 'slowly: messages fail', FAILED, 'DeliveryErrorBudgetFastBurn'],
    ['DeliveryOnTimeBudgetFastBurn', 'core', 'critical', 'fast: messages are late', LATE],
    [
      'DeliveryOnTimeBudgetSlowBurn',
      'extended',
      'warning',
      'slowly: messages are late',
      LATE,
      'DeliveryOnTimeBudgetFastBurn',
    ],
  ] as const
).map(([name, set, severity, how, bad, unlessFired]): Alert => {
  const { text, ...alert } = burnAlert(name, bad, unlessFired);
  return {
    ...alert,
    set,
    severity,
    summary: `{{ $labels.account }} is burning its error budget ${how}.`,
    description: `${text}${AT_THIS_RATE}`,
  };
});

/** Alerts on the event log. */
export const messageAlerts: readonly Alert[] = [
  ...budgetAlerts,
  {
    name: 'DeliveryDlqArrivalRatioHigh',
    set: 'extended',
    severity: 'warning',
    collector: 'events',
    expr: `${badRatio('delivered', '5m')} > clamp_max(5 * ${budget('delivered')}, ${MOST_BAD})\nand ${counted('failed', '5m')} >= ${FEWEST_BAD}`,
    judged: badRatio('delivered', '5m'),
    for: '5m',
    summary: 'High failure rate in {{ $labels.account }}: messages go to the dead-letter queue.',
    description:
      '{{ $value | humanizePercentage }} of the messages that finished in {{ $labels.account }} in the last five minutes failed permanently.',
    dashboard: 'overview',
  },
  {
    name: 'DeliveryRetryRatioHigh',
    set: 'extended',
    severity: 'warning',
    collector: 'events',
    expr: whole(
      `${inState('retry', '15m')} / ${inState('active', '15m')} > ${RETRIES.share} and ${inState('active', '15m')} > ${RETRIES.fewest}`,
      '15m',
    ),
    judged: judgedIn('15m'),
    for: '15m',
    summary: 'High retry rate in {{ $labels.account }}.',
    description:
      '{{ $value | humanizePercentage }} of the delivery attempts in {{ $labels.account }} in the last 15 minutes led to a retry. Messages that keep failing go to the dead-letter queue once their retries are exhausted.',
    dashboard: 'overview',
  },
  {
    name: 'DeliveryStalled',
    set: 'core',
    severity: 'critical',
    collector: 'events',
    // Messages that wait for their scheduled time are not overdue.
    expr: `${counted('overdue', '30m')} >= ${FEWEST_BAD}\nand ${counted('finished', '30m')} == 0`,
    judged: counted('finished', '30m'),
    for: '10m',
    // If publishers stop as well, no more messages become overdue.
    heldBy: {
      expr: `${highest(overdueNow)} > 0 and ${counted('finished', '30m')} == 0`,
      says: 'Still firing: messages are overdue, and none was delivered or failed in the last 30 minutes.',
    },
    summary: '{{ $labels.account }}: messages are due, none completing.',
    description:
      '{{ $value | printf "%.0f" }} messages of {{ $labels.account }} missed their on-time target in the last 30 minutes; none was delivered or failed.',
    dashboard: 'overview',
  },
  {
    name: 'DeliveryDestinationFailing',
    set: 'extended',
    severity: 'warning',
    collector: 'events',
    labels: ['destination'],
    expr: whole(
      `${byDestination('error', '15m')} / ${byDestination(/delivered|error/, '15m')} > 0.5 and ${byDestination('error', '15m')} >= ${FEWEST_BAD}`,
      '15m',
      ['destination'],
    ),
    judged: judgedIn('15m'),
    for: '5m',
    // Intervals between retries grow, so a pause between attempts does not mean recovery. A delivery does, and stays
    // visible for longer than `keepFiringFor`. A destination without attempts for six hours may have been removed.
    heldBy: {
      expr: `${highestOf(byDestination('delivered', '30m'), ['destination'])} == 0 and ${highestOf(byDestination('error', '6h'), ['destination'])} > 0`,
      says: 'Still firing: few attempts fail now, but no message was delivered there in the last 30 minutes.',
    },
    summary: 'Destination {{ $labels.destination }} of {{ $labels.account }} is failing.',
    description:
      '{{ $value | humanizePercentage }} of the delivery attempts to {{ $labels.destination }} in {{ $labels.account }} in the last 15 minutes failed. Resolves when a message is delivered there again.',
    dashboard: 'overview',
  },
  {
    name: 'DeliveryEventLogGap',
    set: 'extended',
    severity: 'warning',
    expr: `${highest(gaps, riseAboveLowest('1h'))} > 0`,
    summary: 'Gap in the event log of {{ $labels.account }}.',
    description:
      'Gaps in the event log of {{ $labels.account }} in the last hour: {{ $value | printf "%.0f" }}. Counters of events are too low.',
    dashboard: 'agent',
  },
  {
    name: 'DeliveryEventLogStale',
    set: 'extended',
    severity: 'warning',
    collector: 'events',
    // Entries and waitlists only change with messages, which have events; an idle account has neither. After an outage,
    // the changes of all of it appear at once.
    expr: `time() - ${highest(newest)} > ${LOG_BEHIND}\nand (${whole(increase('15m')(series(dlq.families.entered)), '15m')} > 0 or ${whole(`changes(${series(flowControl.families.waitlistSize)}[15m])`, '15m', flowControl.families.waitlistSize.labels, [])} > 0)\nunless ${onAccount()} max_over_time(${movementUnread}[15m]) == 1`,
    for: '5m',
    summary: 'The event log of {{ $labels.account }} has no new events although messages move.',
    description:
      'The newest event of {{ $labels.account }} is {{ $value | humanizeDuration }} old, although dead letters arrive or waitlists change. Metrics from the event log lag.',
    dashboard: 'agent',
  },
];
