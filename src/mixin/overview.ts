import { lowest } from '../alerts/promql.ts';
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

/** How deliveries go: rate, errors, duration, and what is full. */
export const overview: readonly RowSpec[] = [
  {
    title: 'At a glance',
    panels: [
      {
        kind: 'stat',
        title: 'Delivered (24 h)',
        description:
          'Which share of the messages that ended in the last 24 hours was delivered? Cancelled ones count for neither.',
        unit: 'percentunit',
        queries: one(`${rise(finished, '24h', [], DELIVERED)} / ${rise(finished, '24h', [], JUDGED)}`),
        thresholds: { warning: 0.99, critical: 0.95 },
      },
      {
        kind: 'stat',
        title: 'Error budget left (30 d)',
        description:
          'How much of the failures that an objective of 99 % allows in 30 days is left? Below 0 it is missed.',
        unit: 'percentunit',
        queries: one(`1 - ${rise(finished, '30d', [], FAILED)} / ${rise(finished, '30d', [], JUDGED)} / 0.01`),
        thresholds: { warning: 0.5, critical: 0 },
      },
      {
        kind: 'stat',
        title: 'Time to deliver, p95 (1 h)',
        description: 'How long did 95 % of the messages delivered in the last hour take at most, retries included?',
        unit: 's',
        queries: one(`histogram_quantile(0.95, ${rise(timeToDeliver, '1h', ['le'], {}, '_bucket')})`),
        thresholds: { warning: 60, critical: 300 },
      },
      {
        kind: 'stat',
        title: 'In flight',
        description: 'How many messages were created and have not ended?',
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
          'How long ago did the dead letter that is in its queue longest come into it? The service deletes it when its retention is over.',
        unit: 'dtdurations',
        queries: one(`time() - min(${chosen(oldestEntered)})`),
      },
      {
        kind: 'stat',
        title: 'Alerts firing',
        description: 'How many of the alerts on delivery-watch fire? Needs the alerting rules.',
        queries: one(
          'count(ALERTS{alertname=~"Delivery.*", alertstate="firing", job=~"$job", account=~"$account|"}) or vector(0)',
        ),
        thresholds: { warning: 1, critical: 5 },
      },
      {
        kind: 'stat',
        title: 'Rounds blind',
        description:
          'How many rounds of collectors have not come through for so long that their data is stale? With any, other panels show old numbers or none.',
        queries: one(`sum(${lowest(chosen(ownFamilies.dataStale))})`),
        thresholds: { warning: 1, critical: 2 },
      },
    ],
  },
  {
    title: 'Rate',
    panels: [
      {
        kind: 'stack',
        title: 'Messages that end',
        description: 'How many messages end a second, and how?',
        unit: 'cps',
        queries: each('{{outcome}}', flow(finished, ['outcome'])),
      },
      {
        kind: 'stack',
        title: 'Events by state',
        description: 'What does the event log list? Every event is counted once.',
        unit: 'cps',
        queries: each('{{state}}', flow(total, ['state'])),
      },
      {
        title: 'Delivered by destination',
        description:
          'Where are messages delivered? The ten busiest; one line without a name where events.destination is none.',
        unit: 'cps',
        queries: each('{{destination}}', `topk(10, ${flow(finished, ['destination'], DELIVERED)})`),
      },
      {
        title: 'Failed by destination',
        description:
          'Where do messages fail for good? The ten worst; one line without a name where events.destination is none.',
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
          'Which share of the messages that end fails for good? The lines are the objective of 1 % and the share at which messages are lost fast.',
        unit: 'percentunit',
        queries: each('{{account}}', `${flow(finished, ['account'], FAILED)} / ${flow(finished, ['account'], JUDGED)}`),
        thresholds: { warning: 0.01, critical: 0.05 },
      },
      {
        title: 'Attempts that lead to a retry',
        description: 'Which share of the attempts has to be made again? It rises before the dead-letter queue does.',
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
        description: 'How long does it take from when a message is due until it is delivered, retries included?',
        unit: 's',
        queries: each('{{le}}', rise(timeToDeliver, '$__rate_interval', ['le'], {}, '_bucket')),
      },
      {
        title: 'Queue wait',
        description: 'How long do messages wait from when they are due until their first attempt?',
        unit: 's',
        queries: [
          { legend: 'p50', expr: quantile(0.5, queueWait) },
          { legend: 'p95', expr: quantile(0.95, queueWait) },
        ],
      },
      {
        title: 'Attempts of a message',
        description: 'How many attempts does a message take on average, by how it ends?',
        queries: each(
          '{{outcome}}',
          `${flow(attempts, ['outcome'], {}, '_sum')} / ${flow(attempts, ['outcome'], {}, '_count')}`,
        ),
      },
      {
        title: 'Duration of an attempt, p95',
        description: 'How long do destinations take to answer, by whether they took the message?',
        unit: 's',
        queries: each('{{result}}', quantile(0.95, attempt, ['result'])),
      },
      {
        title: 'Overdue messages',
        description: 'How many messages a second have not ended five minutes after they were due?',
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
        description: 'How many messages wait on flow-control keys? The ten longest.',
        queries: each(KEY, `topk(10, ${level(waitlistSize, perKey)})`),
      },
      {
        title: 'Parallelism used',
        description:
          'How much of the parallelism of a flow-control key is used? The ten fullest; only where the service reports it.',
        unit: 'percentunit',
        queries: each(KEY, `topk(10, ${level(parallelismInUse, perKey)} / (${level(parallelismLimit, perKey)} > 0))`),
      },
      {
        title: 'Rate used',
        description:
          'How much of the rate of a flow-control key is used in its present period? The ten fullest; only where the service reports it.',
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
