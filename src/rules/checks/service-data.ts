import { dlqFamilies, OTHER, type PlanFacts, type QueuesFacts } from '../../collectors/index.ts';
import { between } from '../../history/points.ts';
import { ALWAYS } from '../../history/recent.ts';
import { DAY, HOUR, MINUTE } from '../../kit/duration.ts';
import { bareAddress, percent } from '../../kit/text.ts';
import { DLQ_DIFFERENCE, QUEUE_BLOCKED, QUOTA_USED } from '../../metrics/thresholds.ts';
import type { CheckInput } from './account.ts';
import { type AccountCheck, checksOf, defineCheck, eachOf, type FoundOf, toAgentTime, UNKNOWN } from './check.ts';
import { clockTime, count, durationText, longText, plural } from './words.ts';

const ofQueues = checksOf('queues');

type Queue = QueuesFacts['shown'][number] & { readonly lag: number };

/** Runs a check for each queue with waiting messages. The service's number of messages is sometimes too low. */
const eachQueue = (check: (input: CheckInput, queue: Queue) => FoundOf) =>
  eachOf(
    ({ shown }) => (shown.queues?.now?.shown ?? []).filter(({ name, lag }) => lag !== 0 && name !== OTHER),
    ({ name }) => name,
    (input, { lag, ...queue }) => (lag === undefined ? 'unknown' : check(input, { ...queue, lag })),
  );

const waiting = ({ lag }: Queue) => `${plural(lag, 'message')} waiting according to the service`;

export const QUEUES: readonly AccountCheck[] = [
  ofQueues('queue_paused', 'DeliveryDispatchPausedWithBacklog', {
    when: 'a queue is paused, and the service reports that messages wait in this queue',
    check: eachQueue((_, queue) => queue.paused && { text: `Queue ${queue.name} is paused: ${waiting(queue)}.` }),
  }),
  ofQueues('queue_blocked', 'DeliveryQueueBlocked', {
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

/** Returns the last read of the management API; undefined if the account does not configure it. */
function planOf(input: CheckInput): (PlanFacts & { usage: NonNullable<PlanFacts['usage']> }) | 'unknown' | undefined {
  if (!input.rounds.some(({ collector, round }) => collector === 'account' && round === 'usage')) return undefined;
  const plan = input.shown.account?.now;
  return plan?.usage && input.dataOf('account').data === 'fresh' ? { ...plan, usage: plan.usage } : 'unknown';
}

/** Minimum time since midnight from which a rate is computed (ms). */
const MIN_TIME = HOUR;
/** Precision of the forecast (ms). */
const ROUNDED_TO = 10 * MINUTE;
/** Maximum age of the count of dead letters when the management API returns it (ms). */
const COUNTED_BEFORE = 10 * MINUTE;

export const PLAN: readonly AccountCheck[] = [
  defineCheck('quota_ending', 'DeliveryQuotaEnding', {
    keepFiringFor: HOUR,
    when: `the plan’s daily quota of requests is used up, or will be used up before 00:00 UTC at the average rate of the day. This forecast starts at 01:00 UTC, and only after ${percent(QUOTA_USED)} of the quota is used`,
    check(input) {
      const { now, serviceNow } = input;
      const plan = planOf(input);
      if (typeof plan !== 'object') return plan ? UNKNOWN : [];
      const { at, requestsToday: used } = plan.usage;
      const { requests_per_day: quota } = plan.limits;
      if (quota === undefined || quota === 0) return [];
      if (used === undefined) return UNKNOWN;
      // The count restarts at midnight by the service's clock.
      const readAt = at + serviceNow - now;
      const midnight = Math.floor(readAt / DAY) * DAY;
      if (serviceNow >= midnight + DAY) return [];
      if (used >= quota)
        return `The daily quota of ${count(quota)} requests is used up: ${count(used)} requests today.`;
      if (readAt - midnight < MIN_TIME || used < QUOTA_USED * quota) return [];
      const end = midnight + ((readAt - midnight) * quota) / used;
      if (end >= midnight + DAY) return [];
      const rounded = Math.floor(end / ROUNDED_TO) * ROUNDED_TO;
      const time = new Date(rounded).toISOString().slice(11, 16);
      return `At today’s average rate, the daily quota of ${count(quota)} requests ends at about ${time} UTC.`;
    },
  }),
  defineCheck('account_suspended', 'DeliveryAccountChanged', {
    when: 'the management API reports a state of the account other than `active`',
    check(input) {
      const plan = planOf(input);
      if (typeof plan !== 'object') return plan ? UNKNOWN : [];
      const state = plan.read?.state ?? 'active';
      if (state === 'active') return [];
      return `The state of the account is ${state}: the service may not deliver its messages.`;
    },
  }),
  defineCheck('plan_changed', 'DeliveryAccountChanged', {
    severity: 'info',
    when: 'in the last day, the plan or the state of the account changed',
    check(input) {
      const plan = planOf(input);
      if (typeof plan !== 'object') return plan ? UNKNOWN : [];
      const { change } = plan.read ?? {};
      if (!change || input.now - change.at > DAY) return [];
      const text = `The account changed: ${change.text}, seen at ${clockTime(change.at, input.now)}.`;
      return { since: change.at, text };
    },
  }),
  defineCheck('dlq_size_differs', 'DeliveryDataIncomplete', {
    severity: 'info',
    for: HOUR,
    when: `the size of the dead-letter queue in the management API is above or below all sizes that the agent recorded from 10 minutes before it read the API until now. The difference exceeds ${DLQ_DIFFERENCE.fewest} messages and ${percent(DLQ_DIFFERENCE.share)}`,
    check(input) {
      const plan = planOf(input);
      if (plan === undefined || !input.dataOf('dlq').enabled) return [];
      if (plan === 'unknown' || plan.usage.dlqMessages === undefined) return UNKNOWN;
      const { at, dlqMessages: reported } = plan.usage;
      const points = input.recent(dlqFamilies.messages.name, ALWAYS);
      const sizes = between(points, at - COUNTED_BEFORE, input.now).map(({ value }) => value);
      if (sizes.length === 0) return UNKNOWN;
      const nearest = Math.min(Math.max(reported, Math.min(...sizes)), Math.max(...sizes));
      const difference = Math.abs(reported - nearest);
      if (difference <= Math.max(DLQ_DIFFERENCE.fewest, DLQ_DIFFERENCE.share * nearest)) return [];
      return `The management API counts ${plural(reported, 'dead letter')}, the agent ${count(nearest)}.`;
    },
  }),
];

export const RUNS: readonly AccountCheck[] = [
  checksOf('runs')('run_stuck', 'DeliveryWorkflowRunStuck', {
    when: 'a workflow run has been in progress for longer than `collect.runs.olderThan`',
    check(input) {
      const { count = 0, hasMore = false, oldest, olderThan = 0 } = input.shown.runs?.now ?? {};
      if (!oldest) return [];
      const { createdAt, runId, url } = oldest;
      const number = `${hasMore ? 'At least ' : ''}${plural(count, 'workflow run')}`;
      const lasting = `${count === 1 ? 'has' : 'have'} been in progress for more than ${durationText(olderThan / 1000)}`;
      const which = hasMore ? 'one of them ' : 'the oldest ';
      const since = `${count === 1 && !hasMore ? '' : which}since ${clockTime(createdAt, input.serviceNow)}`;
      const where = url === undefined ? '' : `${bareAddress(url)}, `;
      const text = `${number} ${lasting}, ${since}: ${where}run ${runId}.`;
      return { since: toAgentTime(input, createdAt + olderThan), text };
    },
  }),
];
