import { lowestOf } from '../alerts/promql.ts';
import { dlq } from '../collectors/dlq/dlq.ts';
import { events } from '../collectors/events/events.ts';
import { flowControl } from '../collectors/flow-control.ts';
import { ownFamilies } from '../metrics/own.ts';
import { age, chosen, each, flow, level, one, quantile, type RowSpec, rise } from './panel.ts';

const { total, finished, timeToDeliver, queueWait, attempt, attempts, inFlight, oldestInFlight, overdue } =
  events.families;
const { messages, oldestEntered } = dlq.families;
const { waitlistSize, parallelismInUse, parallelismLimit, rateUsed, rateLimit, paused } = flowControl.families;

const FAILED = { outcome: 'failed' };
const DELIVERED = { outcome: 'delivered' };
const JUDGED = { outcome: /delivered|failed/ };
const perKey = ['account', 'flow_control_key'] as const;
const KEY = '{{account}} {{flow_control_key}}';

/** Deliveries: rate, errors, duration, saturation. */
export const overview: readonly RowSpec[] = [
  {
    title: 'At a glance',
    panels: [
      {
        kind: 'stat',
        title: 'Delivered (24 h)',
        description:
          'Which share of the messages that ended in the last 24 hours was delivered? Cancelled messages do not count.',
        unit: 'percentunit',
        queries: one(`${rise(finished, '24h', [], DELIVERED)} / ${rise(finished, '24h', [], JUDGED)}`),
        thresholds: { warning: 0.99, critical: 0.95 },
      },
      {
        kind: 'stat',
        title: 'Error budget left (30 d)',
        description:
          'How much of the 30-day error budget of a 99 % objective is left? Below 0 the objective is missed.',
        unit: 'percentunit',
        queries: one(`1 - ${rise(finished, '30d', [], FAILED)} / ${rise(finished, '30d', [], JUDGED)} / 0.01`),
        thresholds: { warning: 0.5, critical: 0 },
      },
      {
        kind: 'stat',
        title: 'Time to deliver, p95 (1 h)',
        description: 'Within which time were 95 % of the messages of the last hour delivered, retries included?',
        unit: 's',
        queries: one(`histogram_quantile(0.95, ${rise(timeToDeliver, '1h', ['le'], {}, '_bucket')})`),
        thresholds: { warning: 60, critical: 300 },
      },
      {
        kind: 'stat',
        title: 'In flight',
        description: 'How many messages are created but not ended?',
        queries: one(level(inFlight)),
      },
      {
        kind: 'stat',
        title: 'Dead letters',
        description: 'How many messages are in the dead-letter queues?',
        queries: one(level(messages)),
      },
      {
        kind: 'stat',
        title: 'Oldest dead letter',
        description:
          'How long has the longest-queued dead letter been in its queue? The service deletes it after the retention.',
        unit: 'dtdurations',
        queries: one(`time() - min(${chosen(oldestEntered)})`),
      },
      {
        kind: 'stat',
        title: 'Alerts firing',
        description: 'How many delivery-watch alerts are firing? Needs the alerting rules.',
        queries: one(
          'count(ALERTS{alertname=~"Delivery.*", alertstate="firing", job=~"$job", account=~"$account|"}) or vector(0)',
        ),
        thresholds: { warning: 1, critical: 5 },
      },
      {
        kind: 'stat',
        title: 'Stale rounds',
        description: 'How many rounds have stale data? If any, other panels show old numbers or none.',
        queries: one(`sum(${lowestOf(chosen(ownFamilies.dataStale), ownFamilies.dataStale.labels)})`),
        thresholds: { warning: 1, critical: 2 },
      },
    ],
  },
  {
    title: 'Rate',
    panels: [
      {
        kind: 'stack',
        title: 'Ended messages',
        description: 'How many messages end per second, by outcome?',
        unit: 'cps',
        queries: each('{{outcome}}', flow(finished, ['outcome'])),
      },
      {
        kind: 'stack',
        title: 'Events by state',
        description: 'Which events does the log list? Each event is counted once.',
        unit: 'cps',
        queries: each('{{state}}', flow(total, ['state'])),
      },
      {
        title: 'Delivered by destination',
        description: 'Which destinations get messages? Top ten; one unnamed line if events.destination is none.',
        unit: 'cps',
        queries: each('{{destination}}', `topk(10, ${flow(finished, ['destination'], DELIVERED)})`),
      },
      {
        title: 'Failed by destination',
        description:
          'At which destinations do messages fail permanently? Top ten; one unnamed line if events.destination is none.',
        unit: 'cps',
        queries: each('{{destination}}', `topk(10, ${flow(finished, ['destination'], FAILED)})`),
      },
    ],
  },
  {
    title: 'Errors',
    panels: [
      {
        title: 'Failed messages',
        description:
          'Which share of ended messages failed permanently? Lines: the objective of 1 % and the fast-burn threshold.',
        unit: 'percentunit',
        queries: each('{{account}}', `${flow(finished, ['account'], FAILED)} / ${flow(finished, ['account'], JUDGED)}`),
        thresholds: { warning: 0.01, critical: 0.05 },
      },
      {
        title: 'Retry ratio',
        description: 'Which share of delivery attempts leads to a retry? It rises before the dead-letter queue grows.',
        unit: 'percentunit',
        queries: each(
          '{{account}}',
          `${flow(total, ['account'], { state: 'retry' })} / ${flow(total, ['account'], { state: 'active' })}`,
        ),
        thresholds: { warning: 0.1, critical: 0.25 },
      },
    ],
  },
  {
    title: 'Duration',
    panels: [
      {
        kind: 'heatmap',
        title: 'Time to deliver',
        description: 'How long does delivery take from when a message is due, retries included?',
        unit: 's',
        queries: each('{{le}}', rise(timeToDeliver, '$__rate_interval', ['le'], {}, '_bucket')),
      },
      {
        title: 'Queue wait',
        description: 'How long do messages wait from when they are due to their first attempt?',
        unit: 's',
        queries: [
          { legend: 'p50', expr: quantile(0.5, queueWait) },
          { legend: 'p95', expr: quantile(0.95, queueWait) },
        ],
      },
      {
        title: 'Attempts per message',
        description: 'How many attempts does a message take on average, by outcome?',
        queries: each(
          '{{outcome}}',
          `${flow(attempts, ['outcome'], {}, '_sum')} / ${flow(attempts, ['outcome'], {}, '_count')}`,
        ),
      },
      {
        title: 'Attempt duration, p95',
        description: 'How long do destinations take to respond, by result?',
        unit: 's',
        queries: each('{{result}}', quantile(0.95, attempt, ['result'])),
      },
      {
        title: 'Overdue messages',
        description: 'How many messages per second pass five minutes after they were due without having ended?',
        unit: 'cps',
        queries: each('{{account}}', flow(overdue, ['account'])),
      },
      {
        title: 'Oldest message in flight',
        description: 'How old is the oldest message that has not ended?',
        unit: 'dtdurations',
        queries: each('{{account}}', age(oldestInFlight, ['account'])),
      },
    ],
  },
  {
    title: 'Saturation',
    panels: [
      {
        title: 'Waitlists',
        description: 'How many messages wait on flow-control keys? Top ten.',
        queries: each(KEY, `topk(10, ${level(waitlistSize, perKey)})`),
      },
      {
        title: 'Parallelism used',
        description:
          'How much of a flow-control key’s parallelism is used? Top ten; only where the service reports it.',
        unit: 'percentunit',
        queries: each(KEY, `topk(10, ${level(parallelismInUse, perKey)} / (${level(parallelismLimit, perKey)} > 0))`),
      },
      {
        title: 'Rate used',
        description:
          'How much of a flow-control key’s rate limit is used in the current period? Top ten; only where the service reports it.',
        unit: 'percentunit',
        queries: each(KEY, `topk(10, ${level(rateUsed, perKey)} / (${level(rateLimit, perKey)} > 0))`),
      },
      {
        title: 'Paused keys',
        description: 'How many flow-control keys are paused? Only where the service reports it.',
        queries: each('{{account}}', level(paused, ['account'])),
      },
    ],
  },
];
