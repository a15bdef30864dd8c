import { limitFamily } from '../src/collectors/account-plan.ts';
import { flowControl } from '../src/collectors/flow-control/flow-control.ts';
import { highest, highestOf, latest, lowestOf, series } from '../src/rules/promql.ts';
import { type Alert, ofItsAccount } from './alert.ts';
import { total, unlessBlind } from './promql.ts';
import { BACKLOG, BACKLOG_GROWTH } from './thresholds.ts';

const { waitlistSize, paused, parallelismInUse, rateLimit, rateUsed, ghostSlots, state } = flowControl.families;
const labels = waitlistSize.labels;
const isPaused = `${highest(paused)} == 1`;
/** Nothing can be sent before the period ends, which may take a day. */
const isRateUsedUp = `${highest(rateUsed)} >= ${highest(rateLimit)}`;
/** Keys in a state. */
const inState = (name: string) => highestOf(latest(series(state, { state: name })), labels);

/** The minimum waitlist of an hour on any replica: a new replica lacks part of the hour. */
const backlog = (offset = '') =>
  lowestOf(`min_over_time(${series(waitlistSize)}[1h]${offset}) ${unlessBlind('flow_control', labels)}`, labels);
const before = backlog(' offset 1h');

/** In a template: the number of messages waiting on the key, if any. */
const waiting = `{{ with query (printf \`max(${ofItsAccount(waitlistSize.name, ', flow_control_key=%q')}) > 0\` $labels.cluster $labels.namespace $labels.job $labels.account $labels.flow_control_key) }} Messages that wait on the key: {{ . | first | value | printf "%.0f" }}.{{ end }}`;
const { share, fewest, many } = BACKLOG_GROWTH;

/** Alerts about flow-control keys. */
export const flowControlAlerts: readonly Alert[] = [
  {
    name: 'DeliveryFlowControlBacklogGrowing',
    set: 'flow-control',
    severity: 'warning',
    collector: 'flow_control',
    labels,
    expr: `${backlog()} > ${BACKLOG}\nand ${backlog()} - ${before} >= clamp(${share} * ${before}, ${fewest}, ${many})\nunless ${isPaused}`,
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
    heldBy: {
      expr: inState('unknown'),
      says: 'Whether slots of {{ $labels.flow_control_key }} in {{ $labels.account }} are still in use without an attempt cannot be told now: the event log is late or was not read, or waiting retries may hold them.',
    },
    summary: 'Slots of a flow-control key of {{ $labels.account }} are in use, and nothing runs in them.',
    description: `Slots of {{ $labels.flow_control_key }} in {{ $labels.account }} that are in use although the event log shows no attempt in them: {{ $value | printf "%.0f" }}.${waiting}`,
    dashboard: 'overview',
  },
  {
    name: 'DeliveryWaitlistStalled',
    set: 'flow-control',
    severity: 'warning',
    collector: 'flow_control',
    labels,
    // The waitlist is constant for half an hour although the key may send. Workers that publish as many messages as
    // they finish also keep it constant, but are throttled.
    expr: `${highest(waitlistSize)} > 0\nand ${highest(waitlistSize)} == ${highest(waitlistSize, waiting => latest(waiting, ' offset 30m'))}\nand ${highest(waitlistSize, waiting => `changes(${waiting}[30m])`)} == 0\nunless ${isPaused}\nunless ${isRateUsedUp}\nunless ${inState('throttled')}`,
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
    expr: `${highest(waitlistSize)} > 0\nand ${isPaused}`,
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
    expr: `${total(parallelismInUse, latest)} / ${highest(limitFamily('global_parallelism'))} > 0.9`,
    for: '15m',
    summary: '{{ $labels.account }} uses nearly all concurrent deliveries of its plan.',
    description:
      'For 15 minutes, deliveries in {{ $labels.account }} with a flow-control key alone have used {{ $value | humanizePercentage }} of the concurrent deliveries that the plan allows.',
    dashboard: 'overview',
  },
];
