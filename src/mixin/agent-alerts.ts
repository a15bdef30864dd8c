import { highest, highestOf, increase, lowest, perReplica, series, total } from '../alerts/promql.ts';
import { alertingFamilies } from '../metrics/alerting.ts';
import { autoCancelFamilies } from '../metrics/auto-cancel.ts';
import { ownFamilies } from '../metrics/own.ts';
import { type Alert, auxiliaryRounds, decidingRounds } from './alert.ts';

const requests = (outcome?: string) =>
  perReplica(ownFamilies.requests, increase('15m'), { where: outcome === undefined ? {} : { outcome } });

/** Whether a target answered the last scrape: Prometheus' own. */
const up = { name: 'up', labels: [] } as const;

const notified = (outcome: string | RegExp) =>
  total(alertingFamilies.notifications, increase('15m'), { where: { outcome }, keep: ['notifier'] });

const unread = (family: typeof ownFamilies.rowsRejected) => total(family, increase('15m'), { keep: ['collector'] });

/** The agent itself, scraped by the job of that name, and its access to the service. */
export const agentAlerts = (job: string): readonly Alert[] => [
  {
    name: 'DeliveryAgentDown',
    severity: 'critical',
    expr: `absent(${series(up, { job })} == 1)`,
    for: '10m',
    keepFiringFor: '0s',
    // absent() gives no labels of what is not there.
    given: { job },
    summary: 'No delivery-watch agent can be scraped.',
    description: `No target of the job ${job} has answered a scrape for 10 minutes. No account is monitored, and no other alert on them can start.`,
    dashboard: 'agent',
    isOfAgent: true,
  },
  {
    name: 'DeliveryBlind',
    severity: 'critical',
    expr: `${lowest(ownFamilies.dataStale, undefined, { round: decidingRounds })} == 1`,
    // Before the first data is withdrawn, with the usual intervals.
    for: '2m',
    keepFiringFor: '5m',
    summary: 'Collector {{ $labels.collector }} of {{ $labels.account }} has no current data.',
    description:
      'The round {{ $labels.round }} of {{ $labels.collector }} in {{ $labels.account }} has not completed for several intervals. Metrics are stale and will be dropped. Firing alerts keep firing; new ones can’t start until data returns.',
    dashboard: 'agent',
  },
  {
    name: 'DeliveryCollectorStale',
    severity: 'warning',
    expr: `${lowest(ownFamilies.dataStale, undefined, { round: auxiliaryRounds })} == 1`,
    for: '15m',
    summary:
      'Secondary collection ({{ $labels.round }}) of {{ $labels.collector }} is failing for {{ $labels.account }}.',
    description:
      'The round {{ $labels.round }} of {{ $labels.collector }} in {{ $labels.account }} has not completed for more than 15 minutes. All other metrics are current; only what this round finds is missing.',
    dashboard: 'agent',
  },
  {
    name: 'DeliveryTokenRejected',
    severity: 'critical',
    expr: `${highest(ownFamilies.tokenRejected)} == 1`,
    for: '1m',
    summary: 'The service rejects the token of {{ $labels.account }}.',
    description:
      'The service has answered 401 to the token of {{ $labels.account }} for more than a minute. Collection for this account is stopped until a token is accepted.',
    dashboard: 'agent',
  },
  {
    name: 'DeliveryRateLimited',
    severity: 'warning',
    expr: highestOf(`${requests('rate_limited')} / ${requests()} > 0.1 and ${requests('rate_limited')} >= 5`),
    for: '10m',
    summary: 'The service rate-limits requests of {{ $labels.account }}.',
    description:
      '{{ $value | humanizePercentage }} of the requests of {{ $labels.account }} in the last 15 minutes were answered with 429. Data is older than the configured intervals, and other clients of the account may be limited, too.',
    dashboard: 'agent',
  },
  {
    name: 'DeliveryListsMissing',
    severity: 'warning',
    // One or two are a page that something on the way has answered with.
    expr: `${unread(ownFamilies.listsMissing)} >= 3`,
    for: '5m',
    keepFiringFor: '5m',
    summary: 'Answers to {{ $labels.collector }} of {{ $labels.account }} contain no valid list.',
    description:
      '{{ $value | printf "%.0f" }} answers to {{ $labels.collector }} of {{ $labels.account }} in the last 15 minutes were not a complete, readable list. They were discarded; metrics show the data from before.',
    dashboard: 'agent',
  },
  {
    name: 'DeliveryRowsRejected',
    severity: 'warning',
    expr: `${unread(ownFamilies.rowsRejected)} > 0`,
    for: '5m',
    keepFiringFor: '5m',
    summary: '{{ $labels.collector }} of {{ $labels.account }} rejects rows that it cannot parse.',
    description:
      '{{ $value | printf "%.0f" }} rows of {{ $labels.collector }} in {{ $labels.account }} could not be parsed in the last 15 minutes. Its metrics are incomplete: missing entries do not count as removed, firing alerts keep firing, and auto-cancel cancels nothing.',
    dashboard: 'agent',
  },
  {
    name: 'DeliveryAutoCancelBreakerOpen',
    severity: 'critical',
    expr: `${highest(autoCancelFamilies.breakerOpen)} == 1`,
    keepFiringFor: '5m',
    summary: 'Auto-cancel breaker {{ $labels.breaker }} is open in {{ $labels.account }}.',
    description:
      'Auto-cancel is stopped in {{ $labels.account }} until an operator resets the breaker {{ $labels.breaker }}.',
    dashboard: 'dlq',
  },
  {
    name: 'DeliveryAutoCancelUnresolved',
    severity: 'critical',
    expr: `time() - ${lowest(autoCancelFamilies.oldestUnresolved)} > 1800`,
    for: '5m',
    summary: 'A cancel by the rule {{ $labels.rule }} in {{ $labels.account }} has no known outcome.',
    description:
      'The oldest cancel by {{ $labels.rule }} in {{ $labels.account }} without a known outcome was started {{ $value | humanizeDuration }} ago.',
    dashboard: 'dlq',
  },
  {
    name: 'DeliveryNotificationsFailing',
    severity: 'critical',
    expr: `${notified(/failed|dropped/)} > 0\nunless ${notified('sent')} > 0`,
    for: '10m',
    summary: 'Alerts of the agent do not reach {{ $labels.notifier }}.',
    description:
      '{{ $value | printf "%.0f" }} notifications to {{ $labels.notifier }} failed in the last 15 minutes and none was delivered: its recipients get no alerts.',
    dashboard: 'agent',
    isOfAgent: true,
  },
];
