import { OTHER, type QueuesFacts } from '../../collectors/index.ts';
import { MINUTE } from '../../kit/duration.ts';
import { QUEUE_BLOCKED } from '../../metrics/thresholds.ts';
import type { CheckInput } from './account.ts';
import { type AccountCheck, checksOf, type Finding, toAgentTime } from './check.ts';
import { clockTime, longText, plural } from './words.ts';

const defineCheck = checksOf('queues');

type Queue = QueuesFacts['shown'][number] & { readonly lag: number };

/** Runs a check for each queue with waiting messages. The service's numbers of them alone prove nothing. */
const eachQueue =
  (check: (input: CheckInput, queue: Queue) => Omit<Finding, 'subject'> | false | 'unknown') => (input: CheckInput) =>
    (input.shown.queues?.now?.shown ?? []).flatMap(queue => {
      const { name: subject, lag } = queue;
      if (lag === 0 || subject === OTHER) return [];
      const found = lag === undefined ? 'unknown' : check(input, { ...queue, lag });
      if (found === 'unknown') return { subject, isUnknown: true as const };
      return found ? { ...found, subject } : [];
    });

const waiting = ({ lag }: Queue) => `${plural(lag, 'message')} waiting according to the service`;

export const QUEUES: readonly AccountCheck[] = [
  defineCheck('queue_paused', 'DeliveryDispatchPausedWithBacklog', {
    when: 'a queue is paused, and the service reports that messages wait in this queue',
    check: eachQueue((_input, queue) =>
      queue.paused ? { text: `Queue ${queue.name} is paused: ${waiting(queue)}.` } : false,
    ),
  }),
  defineCheck('queue_blocked', 'DeliveryQueueBlocked', {
    for: 30 * MINUTE,
    when: `the service reports that messages wait in a queue, and the queue is not paused. In the last ${longText(QUEUE_BLOCKED)}, the event log listed no delivery of this queue. The agent checks only queues with events in the log since the agent started`,
    check: eachQueue((input, queue) => {
      const { isCounting, serviceNow, shown } = input;
      if (queue.paused || isCounting === undefined) return false;
      const log = shown.events?.now?.queues;
      const delivered = log?.deliveries.get(queue.name);
      const start = serviceNow - QUEUE_BLOCKED;
      // The log of some services lacks the messages of workflows.
      if (!isCounting || !log || log.from > start || delivered === undefined) return 'unknown';
      if (delivered > start) return false;
      const last = delivered === 0 ? 'no delivery seen' : `no delivery since ${clockTime(delivered, serviceNow)}`;
      const since = delivered === 0 ? undefined : toAgentTime(input, delivered);
      return { since, text: `Queue ${queue.name}: ${last}; ${waiting(queue)}.` };
    }),
  }),
];
