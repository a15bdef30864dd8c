import { accountPlan } from '../src/collectors/account-plan.ts';
import { flowControl } from '../src/collectors/flow-control/flow-control.ts';
import { highest, highestOf, latest, perReplica, series } from '../src/rules/promql.ts';
import type { AlertSpec } from './alert.ts';
import { type RecordingRule, unlessBlind } from './promql.ts';
import { BACKLOG, BACKLOG_GROWTH } from './thresholds.ts';

const { waitlistSize, paused, parallelismInUse, state } = flowControl.families;
const labels = waitlistSize.labels;

/** Number of waiting messages by key. Absent while waitlists cannot be read. */
const waitlist = 'account_key:delivery_waitlist:max';
/** Minimum of each waitlist in the last hour, except for paused keys. */
const longWaitlist = 'account_key:delivery_waitlist:min1h';
/** Keys that are paused or whose rate is used up, for which a constant waitlist is not a problem. */
const limited = 'account_key:delivery_limited:max';

export const flowControlRecords: readonly RecordingRule[] = [
  { record: waitlist, expr: `${highest(waitlistSize)}\n${unlessBlind('flow_control', labels)}` },
  {
    record: longWaitlist,
    expr: `min_over_time(${waitlist}[1h]) and ${waitlist}\nunless ${highest(paused)} == 1`,
  },
  {
    record: limited,
    expr: highestOf(latest(series(state, { state: ['paused', 'rate_limited'] })), labels),
  },
];
const before = `${longWaitlist} offset 1h`;

const { share, fewest, many } = BACKLOG_GROWTH;

/** Alerts about flow-control keys. */
export const flowControlAlerts: readonly AlertSpec[] = [
  {
    name: 'DeliveryFlowControlBacklogGrowing',
    set: 'flow-control',
    severity: 'warning',
    collector: 'flow_control',
    labels,
    isAbsentWhenBlind: true,
    expr: `${longWaitlist} > ${BACKLOG}\nand ${longWaitlist} - ${before} >= clamp(${share} * ${before}, ${fewest}, ${many})`,
    for: '15m',
    keepFiringFor: '15m',
    summary: 'Growing backlog on a flow-control key of {{ $labels.account }}.',
    description:
      'At least {{ $value | printf "%.0f" }} messages have been waiting on {{ $labels.flow_control_key }} in {{ $labels.account }} for an hour, many more than in the hour before: its limits are below the arrival rate.',
    dashboard: 'overview',
  },
  {
    name: 'DeliveryWaitlistStalled',
    set: 'flow-control',
    severity: 'warning',
    collector: 'flow_control',
    labels,
    isAbsentWhenBlind: true,
    expr: `${waitlist} > 0 and ${waitlist} == ${waitlist} offset 30m and changes(${waitlist}[30m]) == 0\nunless ${limited}`,
    for: '10m',
    summary: 'A flow-control key of {{ $labels.account }} is stalled.',
    description:
      'The waitlist of {{ $labels.flow_control_key }} in {{ $labels.account }} has not changed for 30 minutes, although the key is not paused and its rate is not used up. Waiting messages: {{ $value | printf "%.0f" }}.',
    dashboard: 'overview',
  },
  {
    name: 'DeliveryDispatchPausedWithBacklog',
    set: 'flow-control',
    severity: 'warning',
    collector: 'flow_control',
    labels,
    isAbsentWhenBlind: true,
    expr: `${waitlist} > 0 and ${highest(paused)} == 1`,
    for: '1h',
    summary: 'A flow-control key of {{ $labels.account }} is paused while messages wait.',
    description:
      'The key {{ $labels.flow_control_key }} in {{ $labels.account }} has been paused for more than an hour. Waiting messages: {{ $value | printf "%.0f" }}.',
    dashboard: 'overview',
  },
  {
    name: 'DeliveryParallelismNearlyUsed',
    set: 'flow-control',
    severity: 'warning',
    collector: 'flow_control',
    expr: highestOf(
      `${perReplica(parallelismInUse, latest)} / ignoring (limit) ${latest(series(accountPlan.families.limit, { limit: 'global_parallelism' }))} > 0.9`,
    ),
    for: '15m',
    keepFiringFor: '15m',
    summary: '{{ $labels.account }} uses nearly all concurrent deliveries of its plan.',
    description:
      'For 15 minutes, deliveries in {{ $labels.account }} with a flow-control key alone have used {{ $value | humanizePercentage }} of the concurrent deliveries that the plan allows.',
    dashboard: 'overview',
  },
];
