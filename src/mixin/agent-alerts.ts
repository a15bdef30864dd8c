import { highest, increase, latest, lowest, series, total } from '../alerts/promql.ts';
import { alertingFamilies } from '../metrics/alerting.ts';
import { autoCancelFamilies } from '../metrics/auto-cancel.ts';
import { ownFamilies } from '../metrics/own.ts';
import { type Alert, auxiliaryRounds, decidingRounds } from './alert.ts';

/** The job that scrapes the agent, as the README names it. */
export const JOB = 'delivery-watch';

const requests = (outcome?: string) =>
  total(ownFamilies.requests, increase('15m'), { where: outcome === undefined ? {} : { outcome } });

const notified = (outcome: string | RegExp) =>
  total(alertingFamilies.notifications, increase('15m'), { where: { outcome }, keep: ['notifier'] });

const unread = (family: typeof ownFamilies.rowsRejected) => total(family, increase('15m'), { keep: ['collector'] });

/** The agent itself, and whether it is let in. */
export const agentAlerts: readonly Alert[] = [
  {
    name: 'DeliveryAgentDown',
    severity: 'critical',
    expr: `absent(up{job="${JOB}"} == 1)`,
    for: '10m',
    keepFiringFor: '0s',
    // absent() gives no labels of what is not there.
    labels: { job: JOB },
    summary: 'No delivery-watch agent can be scraped.',
    description: `For 10 minutes no target of the job ${JOB} has answered: nothing is known of any account, and no other alert on them can begin to fire.`,
    dashboard: 'agent',
    isOfAgent: true,
  },
  {
    name: 'DeliveryBlind',
    severity: 'critical',
    expr: `${lowest(latest(series(ownFamilies.dataStale, { round: decidingRounds })))} == 1`,
    // Before the first data is withdrawn, with the usual intervals.
    for: '2m',
    keepFiringFor: '5m',
    summary: 'The {{ $labels.collector }} of {{ $labels.account }} can not be read.',
    description:
      'The round {{ $labels.round }} of {{ $labels.collector }} has not come through in {{ $labels.account }} for some of its intervals. What is shown is old and will be withdrawn; alerts that fire on it go on firing until it can be judged again, and none begins.',
    dashboard: 'agent',
  },
  {
    name: 'DeliveryCollectorStale',
    severity: 'warning',
    expr: `${lowest(latest(series(ownFamilies.dataStale, { round: auxiliaryRounds })))} == 1`,
    for: '15m',
    summary: 'A lesser round of {{ $labels.collector }} of {{ $labels.account }} does not come through.',
    description:
      'The round {{ $labels.round }} of {{ $labels.collector }} has not come through in {{ $labels.account }} for more than 15 minutes. The other numbers are true, but what only this round finds is missing.',
    dashboard: 'agent',
  },
  {
    name: 'DeliveryTokenRejected',
    severity: 'critical',
    expr: `${highest(latest(series(ownFamilies.tokenRejected)))} == 1`,
    for: '1m',
    summary: 'The service refuses the token of {{ $labels.account }}.',
    description:
      'The service has answered 401 to the token of {{ $labels.account }} for more than a minute. Nothing is read of this account until it takes one.',
    dashboard: 'agent',
  },
  {
    name: 'DeliveryRateLimited',
    severity: 'warning',
    expr: `${requests('rate_limited')} / ${requests()} > 0.1\nand ${requests('rate_limited')} >= 5`,
    for: '10m',
    summary: 'The service limits the rate of requests of {{ $labels.account }}.',
    description:
      '{{ $value | humanizePercentage }} of the requests of the last 15 minutes in {{ $labels.account }} were answered with 429: the data gets older than its intervals say, and other users of the account may be limited, too.',
    dashboard: 'agent',
  },
  {
    name: 'DeliveryListsMissing',
    severity: 'warning',
    // One or two are a page that something on the way has answered with.
    expr: `${unread(ownFamilies.listsMissing)} >= 3`,
    for: '5m',
    keepFiringFor: '5m',
    summary: 'The service answers without the list that {{ $labels.collector }} of {{ $labels.account }} asks for.',
    description:
      'In the last 15 minutes {{ $value | printf "%.0f" }} answers to {{ $labels.collector }} in {{ $labels.account }} were no list that can be read whole. Nothing was taken from them: what is shown is what was known before.',
    dashboard: 'agent',
  },
  {
    name: 'DeliveryRowsRejected',
    severity: 'warning',
    expr: `${unread(ownFamilies.rowsRejected)} > 0`,
    for: '5m',
    keepFiringFor: '5m',
    summary: 'Some rows that {{ $labels.collector }} of {{ $labels.account }} reads can not be read.',
    description:
      'In the last 15 minutes {{ $value | printf "%.0f" }} rows of {{ $labels.collector }} in {{ $labels.account }} could not be read. What is shown of it is not the whole: nothing that is missing counts as gone, alerts on it that fire go on, and auto-cancel does not act.',
    dashboard: 'agent',
  },
  {
    name: 'DeliveryAutoCancelBreakerOpen',
    severity: 'critical',
    expr: `${highest(latest(series(autoCancelFamilies.breakerOpen)))} == 1`,
    keepFiringFor: '5m',
    summary: 'The breaker {{ $labels.breaker }} of auto-cancel is open in {{ $labels.account }}.',
    description:
      'Auto-cancel does nothing in {{ $labels.account }} until somebody has looked and reset the breaker {{ $labels.breaker }}.',
    dashboard: 'dlq',
  },
  {
    name: 'DeliveryAutoCancelUnresolved',
    severity: 'critical',
    expr: `time() - ${lowest(latest(series(autoCancelFamilies.oldestUnresolved)))} > 1800`,
    for: '5m',
    summary: 'A cancel of the rule {{ $labels.rule }} in {{ $labels.account }} has no known end.',
    description:
      'The oldest cancel of {{ $labels.rule }} in {{ $labels.account }} whose end nobody knows was intended {{ $value | humanizeDuration }} ago.',
    dashboard: 'dlq',
  },
  {
    name: 'DeliveryNotificationsFailing',
    severity: 'critical',
    expr: `${notified(/failed|dropped/)} > 0\nunless on (job, notifier) ${notified('sent')} > 0`,
    for: '10m',
    summary: 'The agent’s own alerts do not reach {{ $labels.notifier }}.',
    description:
      'In the last 15 minutes {{ $value | printf "%.0f" }} notifications to {{ $labels.notifier }} failed and none was sent: whoever relies on it is not told.',
    dashboard: 'agent',
    isOfAgent: true,
  },
];
