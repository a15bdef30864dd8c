import { limitFamily } from '../src/collectors/account-plan.ts';
import { flowControl } from '../src/collectors/flow-control/flow-control.ts';
import { highest, highestOf, latest, perReplica, series } from '../src/rules/promql.ts';
import { type AlertSpec, ofItsAccount } from './alert.ts';
import { type RecordingRule, unlessBlind } from './promql.ts';
import { BACKLOG, BACKLOG_GROWTH } from './thresholds.ts';

const { waitlistSize, paused, parallelismInUse, rateLimit, rateUsed, ghostSlots, state } = flowControl.families;
const labels = waitlistSize.labels;

/** Number of waiting messages by key. Absent while waitlists cannot be read. */
const waitlist = 'account_key:delivery_waitlist:max';
/** Minimum of each waitlist in the last hour, except for paused keys. */
const longWaitlist = 'account_key:delivery_waitlist:min1h';
/** Keys that are paused, throttled or at their rate limit, for which a constant waitlist is not a problem. */
const limited = 'account_key:delivery_limited:max';

export const flowControlRecords: readonly RecordingRule[] = [
  { record: waitlist, expr: `${highest(waitlistSize)}\n${unlessBlind('flow_control', labels)}` },
  {
    record: longWaitlist,
    expr: `min_over_time(${waitlist}[1h]) and ${waitlist}\nunless ${highest(paused)} == 1`,
  },
  {
    record: limited,
    // The waitlist of a throttled key stays constant if as many messages are added as are delivered.
    expr: highestOf(
      `${latest(series(paused))} == 1\nor ${latest(series(rateUsed))} >= ${latest(series(rateLimit))}\nor ignoring (state, reason) ${latest(series(state, { state: 'throttled' }))}`,
      labels,
    ),
  },
];
const before = `${longWaitlist} offset 1h`;

/** Template code for the number of messages waiting on the key, if any. */
const waiting = `{{ with query (printf \`max(${ofItsAccount(waitlistSize.name, ', flow_control_key=%q')}) > 0\` $labels.cluster $labels.namespace $labels.job $labels.account $labels.flow_control_key) }} Messages that wait on the key: {{ . | first | value | printf "%.0f" }}.{{ end }}`;
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
    summary: 'Growing backlog on a flow-control key of {{ $labels.account }}.',
    description:
      'At least {{ $value | printf "%.0f" }} messages have been waiting on {{ $labels.flow_control_key }} in {{ $labels.account }} for an hour, many more than in the hour before: its limits are below the arrival rate.',
    dashboard: 'overview',
  },
  {
    name: 'DeliveryFlowControlGhostSlots',
    set: 'flow-control',
    severity: 'warning',
    collector: 'flow_control',
    labels,
    expr: `${highest(ghostSlots)} > 0`,
    for: '2m',
    // Keep firing while it is unknown whether an attempt runs in the slots.
    keepFiringFor: '1h',
    summary: 'Slots of a flow-control key of {{ $labels.account }} are in use, but nothing runs in them.',
    description: `Slots of {{ $labels.flow_control_key }} in {{ $labels.account }} that are in use although the event log shows no attempt in them: {{ $value | printf "%.0f" }}.${waiting}`,
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
      `${perReplica(parallelismInUse, latest)} / ${latest(series(limitFamily('global_parallelism')))} > 0.9`,
    ),
    for: '15m',
    summary: '{{ $labels.account }} uses nearly all concurrent deliveries of its plan.',
    description:
      'For 15 minutes, deliveries in {{ $labels.account }} with a flow-control key alone have used {{ $value | humanizePercentage }} of the concurrent deliveries that the plan allows.',
    dashboard: 'overview',
  },
];
