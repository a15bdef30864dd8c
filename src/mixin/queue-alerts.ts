import { highest, latest, lowest } from '../alerts/promql.ts';
import { dlq } from '../collectors/dlq/dlq.ts';
import { flowControl } from '../collectors/flow-control.ts';
import { ownFamilies } from '../metrics/own.ts';
import type { Alert } from './alert.ts';

const { messages, oldestEntered, callbacks, suspected } = dlq.families;
/** How many there were an hour ago. */
const anHourAgo = (selector: string) => latest(selector, ' offset 1h');

/** What waits in the whole dead-letter queue. */
export const dlqAlerts: readonly Alert[] = [
  {
    name: 'DeliveryDlqFirstEntry',
    severity: 'info',
    collector: 'dlq',
    expr: `${highest(messages)} > 0\nand ${lowest(messages, size => `min_over_time(${size}[1h])`)} == 0`,
    summary: 'First messages in the dead-letter queue of {{ $labels.account }}.',
    description:
      'Messages in the dead-letter queue of {{ $labels.account }}, which was empty within the last hour: {{ $value | printf "%.0f" }}.',
    dashboard: 'dlq',
  },
  {
    name: 'DeliveryDlqGrowing',
    severity: 'warning',
    collector: 'dlq',
    // The second term: it still grows. The third: it is more than it was, and not a fit through noise.
    expr: `${highest(messages, size => `deriv(${size}[1h])`)} * 3600 > 10\nand ${highest(messages, size => `deriv(${size}[15m])`)} > 0\nand ${highest(messages)} - ${highest(messages, anHourAgo)} >= 10`,
    for: '30m',
    summary: 'The dead-letter queue of {{ $labels.account }} is growing.',
    description:
      'The dead-letter queue of {{ $labels.account }} is growing by {{ $value | printf "%.0f" }} messages per hour.',
    dashboard: 'dlq',
  },
  {
    name: 'DeliveryDlqExpiringSoon',
    severity: 'critical',
    collector: 'dlq',
    expr: `time() - ${lowest(oldestEntered)} > 0.8 * ${highest(ownFamilies.dlqRetention)}`,
    for: '15m',
    summary: 'Messages in the dead-letter queue of {{ $labels.account }} are about to expire.',
    description:
      'The oldest message in the dead-letter queue of {{ $labels.account }} entered it {{ $value | humanizeDuration }} ago, more than 80% of its retention.',
    dashboard: 'dlq',
  },
  {
    name: 'DeliveryFailureCallbackStuck',
    severity: 'warning',
    collector: 'dlq',
    expr: `${highest(suspected)} > 0`,
    for: '15m',
    summary: 'Failure callbacks of {{ $labels.account }} seem stuck.',
    description:
      'Failure callbacks of {{ $labels.account }} in progress for longer than all their retries can take: {{ $value | printf "%.0f" }}.',
    dashboard: 'dlq',
  },
  {
    name: 'DeliveryFailureCallbackFailed',
    severity: 'warning',
    collector: 'dlq',
    labels: ['state'],
    expr: `${highest(callbacks, undefined, { state: 'fail' })} > 0`,
    for: '30m',
    summary: 'Failure callbacks of {{ $labels.account }} failed.',
    description:
      'Failed workflows of {{ $labels.account }} that went unreported because their failure callbacks failed, too: {{ $value | printf "%.0f" }}.',
    dashboard: 'dlq',
  },
];

const { waitlistSize, paused } = flowControl.families;
const isPaused = `${highest(paused)} == 1`;

/** What waits on flow-control keys. */
export const flowControlAlerts: readonly Alert[] = [
  {
    name: 'DeliveryFlowControlBacklogGrowing',
    severity: 'warning',
    collector: 'flow_control',
    labels: ['flow_control_key'],
    expr: `${highest(waitlistSize, waiting => `min_over_time(${waiting}[15m])`)} > 100\nand ${highest(waitlistSize, waiting => `deriv(${waiting}[30m])`)} > 0\nand ${highest(waitlistSize)} > 100`,
    for: '15m',
    summary: 'Growing backlog on a flow-control key of {{ $labels.account }}.',
    description:
      'At least {{ $value | printf "%.0f" }} messages have been waiting on {{ $labels.flow_control_key }} in {{ $labels.account }} for 15 minutes, and the number is growing: its limits are below the arrival rate.',
    dashboard: 'overview',
  },
  {
    name: 'DeliveryWaitlistStalled',
    severity: 'warning',
    collector: 'flow_control',
    labels: ['flow_control_key'],
    // The same number for half an hour, of a key that is there now and is not paused.
    expr: `${highest(waitlistSize)} > 0\nand ${highest(waitlistSize)} == ${highest(waitlistSize, waiting => latest(waiting, ' offset 30m'))}\nand ${highest(waitlistSize, waiting => `changes(${waiting}[30m])`)} == 0\nunless ${isPaused}`,
    for: '10m',
    summary: 'A flow-control key of {{ $labels.account }} is stalled.',
    description:
      'The waitlist of {{ $labels.flow_control_key }} in {{ $labels.account }} has not changed for 30 minutes, although the key is not paused. Waiting messages: {{ $value | printf "%.0f" }}.',
    dashboard: 'overview',
  },
  {
    name: 'DeliveryDispatchPausedWithBacklog',
    severity: 'warning',
    collector: 'flow_control',
    labels: ['flow_control_key'],
    expr: `${highest(waitlistSize)} > 0\nand ${isPaused}`,
    for: '1h',
    summary: 'A flow-control key of {{ $labels.account }} is paused while messages wait.',
    description:
      'The key {{ $labels.flow_control_key }} in {{ $labels.account }} has been paused for more than an hour. Waiting messages: {{ $value | printf "%.0f" }}.',
    dashboard: 'overview',
  },
];
