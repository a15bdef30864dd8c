import { dlq } from '../src/collectors/dlq/dlq.ts';
import { events } from '../src/collectors/events/events.ts';
import { flowControl } from '../src/collectors/flow-control/flow-control.ts';
import type { OBJECTIVES } from '../src/metrics/objectives.ts';
import { ownFamilies } from '../src/metrics/own.ts';
import { LOG_BEHIND, RETRIES } from '../src/metrics/thresholds.ts';
import { BLIND, highest, highestOf, increase, onAccount, perReplica, series } from '../src/rules/promql.ts';
import { type AlertSpec, ifAbove0 } from './alert.ts';
import { burning, burningIn, stalled, unlessPartial } from './message-records.ts';
import { difference, lastResult } from './promql.ts';
import { BURNS, FAILING, type Pace, type Window } from './thresholds.ts';

const { total: logged, newest, gaps } = events.families;

/** Windows in words, for the texts of alerts. */
const WORDS: Readonly<Partial<Record<Window, string>>> = {
  '1h': 'hour',
  '6h': 'six hours',
  '1d': 'day',
  '3d': 'three days',
};

/** Returns an alert on an error budget. `bad`: description of the bad messages. */
function burnAlert(objective: (typeof OBJECTIVES)[number], pace: Pace, bad: string) {
  const record = burning(objective, pace);
  const texts = BURNS[pace].map(burn =>
    ifAbove0(
      burningIn(burn),
      `In the last ${WORDS[burn.long]} {{ . | humanizePercentage }} ${bad}. `,
      `, objective="${objective}"`,
    ),
  );
  return {
    for: pace === 'fast' ? '2m' : '15m',
    keepFiringFor: pace === 'fast' ? '10m' : '15m',
    severity: pace === 'fast' ? 'critical' : 'warning',
    collector: 'events',
    expr: `max without (objective) (${record}) > 0`,
    ended: `max without (objective) (${lastResult(record)}) == 0`,
    description: `${texts.join('')}At this rate the error budget of its objective is spent before the objective’s window ends.`,
    dashboard: 'overview',
  } as const;
}

/** Returns the increase of events in a state within 15 minutes, by replica. */
const inState = (state: string) => perReplica(logged, increase('15m'), { where: { state } });
/** Returns the increase of events in a state within 15 minutes, by destination. */
const toDestination = (state: string, where = '') => increase('15m')(`${logged.name}{state="${state}"${where}}`);
/** Selects replicas that counted events in real time for the last 15 minutes. After an outage, they count all missed events at once. */
const steady = `min_over_time(${series(ownFamilies.counting)}[15m]) > 0`;

const FAILED = 'of the messages of {{ $labels.account }} failed';
const LATE = 'of the messages of {{ $labels.account }} missed their on-time target';

const budgetAlerts: readonly AlertSpec[] = [
  {
    name: 'DeliveryErrorBudgetFastBurn',
    set: 'core',
    ...burnAlert('delivered', 'fast', FAILED),
    summary: '{{ $labels.account }} is burning its error budget fast: messages fail.',
  },
  {
    name: 'DeliveryErrorBudgetSlowBurn',
    set: 'core',
    ...burnAlert('delivered', 'slow', FAILED),
    summary: '{{ $labels.account }} is burning its error budget slowly: messages fail.',
  },
  {
    name: 'DeliveryOnTimeBudgetFastBurn',
    set: 'core',
    ...burnAlert('on_time', 'fast', LATE),
    summary: '{{ $labels.account }} is burning its error budget fast: messages are late.',
  },
  {
    name: 'DeliveryOnTimeBudgetSlowBurn',
    set: 'extended',
    ...burnAlert('on_time', 'slow', LATE),
    summary: '{{ $labels.account }} is burning its error budget slowly: messages are late.',
  },
];

/** Alerts on the event log. */
export const messageAlerts: readonly AlertSpec[] = [
  ...budgetAlerts,
  {
    name: 'DeliveryRetryRatioHigh',
    set: 'extended',
    severity: 'warning',
    collector: 'events',
    isAbsentWhenBlind: true,
    expr: highestOf(
      `${inState('retry')} > clamp_min(${RETRIES.share} * ${inState('active')}, ${RETRIES.share * RETRIES.fewest}) and ${steady}`,
    ),
    for: '15m',
    // Longer than the ratio is unknown after a restart.
    keepFiringFor: '30m',
    summary: 'High retry rate in {{ $labels.account }}.',
    description:
      '{{ $value | printf "%.0f" }} delivery attempts in {{ $labels.account }} in the last 15 minutes led to a retry, more than a quarter of all. Messages that keep failing go to the dead-letter queue once their retries are exhausted.',
    dashboard: 'overview',
  },
  {
    name: 'DeliveryStalled',
    set: 'core',
    severity: 'critical',
    collector: 'events',
    expr: `${stalled} > 0`,
    ended: `(${lastResult(stalled)} ${unlessPartial()}) == 0`,
    for: '10m',
    summary: 'No message of {{ $labels.account }} completes, although messages are due.',
    description:
      '{{ $value | printf "%.0f" }} messages of {{ $labels.account }} missed their on-time target in the last 30 minutes; none was delivered or failed.',
    dashboard: 'overview',
  },
  {
    name: 'DeliveryDestinationFailing',
    set: 'extended',
    severity: 'warning',
    collector: 'events',
    isAbsentWhenBlind: true,
    labels: ['destination'],
    expr: highestOf(
      `${toDestination('error', ', destination!=""')} > ignoring (state) clamp_min(${toDestination('delivered')}, ${FAILING})\nand ignoring (destination) ${steady}`,
      ['destination'],
    ),
    for: '5m',
    // Intervals between retries grow, so a pause between attempts does not mean recovery.
    keepFiringFor: '1h',
    summary: 'Destination {{ $labels.destination }} of {{ $labels.account }} is failing.',
    description:
      '{{ $value | printf "%.0f" }} delivery attempts to {{ $labels.destination }} in {{ $labels.account }} in the last 15 minutes failed, more than succeeded.',
    dashboard: 'overview',
  },
  {
    name: 'DeliveryEventLogGap',
    set: 'extended',
    severity: 'warning',
    expr: `${highest(gaps, difference('1h'))} > 0`,
    summary: 'Gap in the event log of {{ $labels.account }}.',
    description:
      'Gaps in the event log of {{ $labels.account }} in the last hour: {{ $value | printf "%.0f" }}. Event counters are too low.',
    dashboard: 'agent',
  },
  {
    name: 'DeliveryEventLogStale',
    set: 'extended',
    severity: 'warning',
    // New entries and changing waitlists prove that messages move, so the log must contain events. Accounts that were blind in
    // the last 20 minutes are excluded, because all changes since the start of an outage appear at once.
    expr: `time() - ${highest(newest)} > ${LOG_BEHIND}\nand ${highestOf(`${increase('15m')(series(dlq.families.entered))} > 0 or changes(${series(flowControl.families.waitlistSize)}[15m]) > 0`)}\nunless ${onAccount()} max_over_time(${series(BLIND)}[20m]) > 0`,
    for: '5m',
    // The condition is not evaluated for 20 minutes after a restart of the agent.
    keepFiringFor: '15m',
    summary: 'The event log of {{ $labels.account }} has no new events although messages are moving.',
    description:
      'The newest event of {{ $labels.account }} is {{ $value | humanizeDuration }} old, although dead letters arrive or waitlists change. Metrics from the event log lag.',
    dashboard: 'agent',
  },
];
