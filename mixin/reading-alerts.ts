import { ownFamilies } from '../src/metrics/own.ts';
import { LISTS_MISSING, RATE_LIMITED, REQUESTS_KEPT, REQUESTS_LAST } from '../src/metrics/thresholds.ts';
import {
  accountsOf,
  BLIND,
  highest,
  highestOf,
  increase,
  lowest,
  lowestOf,
  perReplica,
  series,
} from '../src/rules/promql.ts';
import { type AlertSpec, auxiliaryRounds, ofItsAccount, queried } from './alert.ts';
import { current, lastKnown, type RecordingRule, total } from './promql.ts';

const requests = (outcome?: string) =>
  perReplica(ownFamilies.requests, increase('15m'), { where: outcome === undefined ? {} : { outcome } });

const unread = (family: typeof ownFamilies.rowsRejected) => total(family, increase('15m'), { keep: ['collector'] });

/** Returns the number of series by account. */
const countByAccount = (expr: string) => `count by (cluster, namespace, job, account) (${expr})`;

const blind = series(BLIND);
/** If the agent exits while it is blind, the range bridges the time until DeliveryAgentDown or DeliveryInstanceDown fires. */
const isStale = `last_over_time(${blind}[8m]) ==`;
/** Crash loop: no process has read anything, and none has run long enough for its data to become stale. */
const neverReads = `min_over_time(${blind}[30m]) == 0.5 and ${blind} offset 30m > 0`;

/** 1 if any data of an account is stale, else 0. Omits accounts with a rejected token, because then the cause is not the service. */
const unavailable = 'account:delivery_unavailable:max';
export const unavailableRecord: RecordingRule = {
  record: unavailable,
  expr: `${highestOf(`${isStale} bool 1`)}\nunless ${highest(ownFamilies.tokenRejected)} == 1`,
};

/** Returns template code that lists a label's values in the result of `expr` for the alert's account. */
const listed = (label: string, expr: string) =>
  `{{ range $i, $each := ${queried(expr)} | sortByLabel "${label}" }}{{ if $i }}, {{ end }}{{ $each.Labels.${label} }}{{ end }}`;

const staleRounds = listed(
  'round',
  `max by (round) (${ofItsAccount(ownFamilies.dataStale.name, `, round=~"${auxiliaryRounds.join('|')}"`)}) == 1`,
);

/** Share of the configured daily requests that is left for reading on the current UTC day. */
const budgetLeft = `(${lastKnown(lowestOf(`${series(ownFamilies.budgetRemaining)} / ${series(ownFamilies.budgetLimit)}`))} - ${REQUESTS_KEPT})`;
/** Remaining share of the UTC day. */
const dayLeft = '(1 - time() % 86400 / 86400)';

/** Alerts about reading data from the service. */
export const readingAlerts: readonly AlertSpec[] = [
  {
    name: 'DeliveryBlind',
    set: 'core',
    severity: 'critical',
    labels: ['collector'],
    expr: `${isStale} 1\nor ${neverReads}`,
    // Data becomes stale after three intervals (two for walks). With the delays of scrape, evaluation and `for`, the alert
    // fires about two minutes after the start of an outage.
    for: '30s',
    summary: '{{ $labels.collector }} of {{ $labels.account }} cannot be read.',
    description:
      'There is no current data of {{ $labels.collector }} of {{ $labels.account }}. Its metrics are stale and will be withdrawn. Alerts on them that already fire keep firing; new ones can’t start until data returns.',
    dashboard: 'agent',
  },
  {
    name: 'DeliveryServiceUnavailable',
    set: 'core',
    severity: 'critical',
    expr: `avg by (cluster, namespace, job) (${unavailable}) > 0.5\nand sum by (cluster, namespace, job) (${unavailable}) >= 3`,
    // Fires before DeliveryBlind for the same accounts and resolves after it, because it inhibits that alert.
    for: '15s',
    keepFiringFor: '1m',
    summary: 'Most accounts cannot be read.',
    description:
      '{{ $value | humanizePercentage }} of the accounts with an accepted token have no current data: the service or the network path to it is down.',
    dashboard: 'agent',
    isOfAgent: true,
  },
  {
    name: 'DeliveryCollectorStale',
    set: 'extended',
    severity: 'warning',
    expr: `${countByAccount(`${lastKnown(lowest(ownFamilies.dataStale, current, { round: auxiliaryRounds }))} == 1`)}\nunless ${accountsOf(`${blind} == 1`)}`,
    for: '15m',
    summary: 'Secondary collection is failing for {{ $labels.account }}.',
    description: `Rounds of {{ $labels.account }} that have not completed for more than 15 minutes: ${staleRounds}. All other metrics are current; only the data of these rounds is missing.`,
    dashboard: 'agent',
  },
  {
    name: 'DeliveryTokenRejected',
    set: 'core',
    severity: 'critical',
    expr: `${lastKnown(highest(ownFamilies.tokenRejected, current))} == 1`,
    // Longer than the rotation of a token takes.
    for: '3m',
    summary: 'The service rejects the token of {{ $labels.account }}.',
    description:
      'The service has rejected the token of {{ $labels.account }} with status 401 for more than three minutes. Collection for this account is stopped until a token is accepted.',
    dashboard: 'agent',
  },
  {
    name: 'DeliveryRateLimited',
    set: 'extended',
    severity: 'warning',
    expr: highestOf(
      `${requests('rate_limited')} > clamp_min(${RATE_LIMITED.share} * ${requests()}, ${RATE_LIMITED.fewest})`,
    ),
    for: '10m',
    keepFiringFor: '15m',
    summary: 'The service rate-limits requests of {{ $labels.account }}.',
    description:
      '{{ $value | printf "%.0f" }} requests of {{ $labels.account }} in the last 15 minutes got status 429, more than a tenth of all. Data is older than the configured intervals, and other clients of the account may be limited, too.',
    dashboard: 'agent',
  },
  {
    name: 'DeliveryRequestBudgetLow',
    set: 'extended',
    severity: 'warning',
    // The remaining share of requests is less than a quarter of the remaining share of the day. A tenth of the requests is reserved
    // for auto-cancel and not included.
    expr: `${budgetLeft} < ${REQUESTS_LAST} * ${dayLeft}`,
    for: '15m',
    summary: 'The daily request budget of {{ $labels.account }} is nearly used up.',
    description:
      '{{ $labels.account }} has {{ $value | humanizePercentage }} of its requests for this UTC day left for reading. Rounds are delayed, so data gets older.',
    dashboard: 'agent',
  },
  {
    name: 'DeliveryListsMissing',
    set: 'extended',
    severity: 'warning',
    labels: ['collector'],
    expr: `${unread(ownFamilies.listsMissing)} >= ${LISTS_MISSING}`,
    for: '5m',
    summary: 'Responses for {{ $labels.collector }} of {{ $labels.account }} contained no valid list.',
    description:
      '{{ $value | printf "%.0f" }} responses for {{ $labels.collector }} of {{ $labels.account }} in the last 15 minutes contained no complete, readable list. They were discarded; until a valid list is read, metrics show older data.',
    dashboard: 'agent',
  },
  {
    name: 'DeliveryRowsRejected',
    set: 'extended',
    severity: 'warning',
    labels: ['collector'],
    expr: `${unread(ownFamilies.rowsRejected)} > 0`,
    for: '5m',
    summary: 'Rows of {{ $labels.collector }} in {{ $labels.account }} could not be parsed completely.',
    description:
      'Rows of {{ $labels.collector }} in {{ $labels.account }} that could not be parsed completely in the last 15 minutes: {{ $value | printf "%.0f" }}. While reads contain such rows, metrics are incomplete, missing entries may not count as removed, firing alerts keep firing, and auto-cancel is suspended.',
    dashboard: 'agent',
  },
];
