import { dlq } from '../src/collectors/dlq/dlq.ts';
import { events } from '../src/collectors/events/events.ts';
import { alertingFamilies } from '../src/metrics/alerting.ts';
import { leaderFamilies } from '../src/metrics/leader.ts';
import { ownFamilies } from '../src/metrics/own.ts';
import { highestOf, lowestOf } from '../src/rules/promql.ts';
import { ofRow, ofSeries } from './dashboard-links.ts';
import { SUCCEEDED } from './palette.ts';
import { each, type PanelSpec, type RowSpec } from './panel.ts';
import { ACCOUNT_LEGEND, age, chosen, flow, inRange, ofAgent, ofAgents, onlyTen, quantile, rise } from './queries.ts';

const own = ownFamilies;
const { newest, gaps, late, duplicates, untracked } = events.families;
const ROUND = `${ACCOUNT_LEGEND} {{collector}} {{round}}`;
const round = ['collector', 'round'] as const;
const account = { keep: ['account'] } as const;
const requestsLeft = lowestOf(`${chosen(own.budgetRemaining)} / ${chosen(own.budgetLimit)}`);
const FEW_LEFT = { warning: 0.25, critical: 0.1 };

const freshness: readonly PanelSpec[] = [
  {
    kind: 'states',
    title: 'Rounds',
    description: 'Did the last attempt of each round succeed? The ten that fail most.',
    words: SUCCEEDED,
    queries: each(
      ROUND,
      onlyTen(highestOf(chosen(own.success), round), highestOf(inRange('avg', chosen(own.success)), round), 'bottomk'),
    ),
    noValue: 'no round has ended yet',
  },
  {
    title: 'Age of the data',
    description: 'How long ago did the last complete round start? The ten that were stale for longest.',
    unit: 'seconds',
    queries: each(
      ROUND,
      onlyTen(age(own.dataTimestamp, round), highestOf(inRange('avg', chosen(own.dataStale)), round)),
    ),
    links: ofSeries('agent'),
    noValue: 'no round is complete yet',
  },
  {
    title: 'Age of the newest event',
    width: 24,
    height: 6,
    description:
      'How far does the event log lag? The newest event of an idle account is old, too. The ten accounts with the largest lag at the end of the time range.',
    unit: 'seconds',
    queries: each(
      ACCOUNT_LEGEND,
      onlyTen(`time() - ${highestOf(chosen(newest))}`, highestOf(inRange('max', chosen(newest))), 'bottomk'),
    ),
    links: ofSeries('agent', 'overview'),
    noValue: 'no event was ever read',
  },
];

const api: readonly PanelSpec[] = [
  {
    kind: 'stack',
    title: 'Requests by outcome',
    description: 'How do requests end? Every outcome except “ok” delays data.',
    unit: 'requests/s',
    queries: each('{{outcome}}', flow(own.requests, { keep: ['outcome'] })),
  },
  {
    title: 'Request duration, p95',
    description: 'How long does the service take to respond, all accounts together?',
    unit: 'seconds',
    queries: each(
      '{{endpoint}}',
      quantile(
        0.95,
        `sum by (endpoint, le) (increase(${ofAgent('delivery_watch_api_request_duration_seconds', '_bucket')}[$__rate_interval]))`,
      ),
    ),
  },
  {
    kind: 'table',
    title: 'Request budgets',
    description:
      'At the request rate of the last hour, does the daily budget of each account last until 00:00 UTC? Waiting: average number of requests that wait for the budget. If it is above 1, the budget is too low, and rounds are late.',
    labels: { account: 'Account' },
    columns: [
      { title: 'Left', expr: lowestOf(chosen(own.budgetRemaining)) },
      { title: 'of the budget', unit: 'share', expr: requestsLeft, thresholds: FEW_LEFT, bar: { full: 1 } },
      {
        title: 'Lasts for',
        unit: 'seconds',
        expr: `3600 * ${lowestOf(chosen(own.budgetRemaining))} / (${rise(own.requests, '1h', account)} > 0)`,
      },
      {
        title: 'Waiting (1 h)',
        unit: 'number',
        expr: `${rise(own.budgetWait, '1h', account)} / 3600`,
        thresholds: { warning: 0.5, critical: 1, calm: 'text' },
      },
      {
        title: 'Rate-limited (1 h)',
        expr: rise(own.requests, '1h', { ...account, where: { outcome: 'rate_limited' } }),
        thresholds: { warning: 1, critical: 100, calm: 'text' },
      },
      { title: 'Received (24 h)', unit: 'bytes', expr: rise(own.responseBytes, '24h', account) },
    ],
    sortBy: ['Rate-limited (1 h)', 'Waiting (1 h)'],
    links: { Account: ofRow('agent', 'overview') },
    noValue: 'unknown',
    width: 24,
    height: 6,
  },
];

const quality: readonly PanelSpec[] = [
  {
    kind: 'bars',
    title: 'Data anomalies',
    description:
      'What was unreadable, late or missing? Counted in each interval. All should be zero, except delayed events if the service lists events late.',
    queries: [
      { legend: 'unreadable rows', expr: rise(own.rowsRejected, '$__interval') },
      { legend: 'responses without a list', expr: rise(own.listsMissing, '$__interval') },
      { legend: 'gaps in the event log', expr: rise(gaps, '$__interval') },
      { legend: 'late events', expr: rise(late, '$__interval') },
      { legend: 'events listed twice', expr: rise(duplicates, '$__interval') },
      { legend: 'untracked messages', expr: rise(untracked, '$__interval') },
      { legend: 'dead letters found late', expr: rise(dlq.families.foundByRescan, '$__interval') },
    ],
  },
  {
    kind: 'bars',
    title: 'Notifications',
    description:
      'How many notifications were sent in each interval? failed: the agent retries them; dropped: alerts that ended before they could be sent.',
    queries: each(
      '{{outcome}}',
      `sum by (outcome) (increase(${ofAgents(alertingFamilies.notifications)}[$__interval]))`,
    ),
    noValue: 'alerts.enabled is false, or there is no notifier',
  },
];

const { leader, renewals } = leaderFamilies;
const NOT_SHARED = 'the store is not shared';

const shared: readonly PanelSpec[] = [
  {
    kind: 'table',
    title: 'Leader and standbys',
    description: 'Which process is the leader of each schema, and can every process reach the database?',
    labels: { instance: 'Instance', schema: 'Schema' },
    columns: [
      { title: 'Leads', expr: `max by (instance, schema) (${ofAgents(leader)})` },
      {
        title: 'Failed, last hour',
        expr: `max by (instance) (increase(${ofAgents(renewals, '', { outcome: 'failed' })}[1h]))`,
        thresholds: { warning: 1, critical: 60, calm: 'text' },
      },
    ],
    sortBy: ['Leads'],
    noValue: NOT_SHARED,
    height: 6,
  },
];

/** Returns a query for a value by process, with the agent's version and the Node.js version as labels. */
const ofProcess = (value: string) =>
  `max by (instance, version, node_version) (${ofAgent('delivery_watch_build_info')} * on (job, instance) group_left () (${value}))`;
const CONFIG_LOADED = 'delivery_watch_config_last_reload_success_timestamp_seconds';

const processes: readonly PanelSpec[] = [
  {
    kind: 'table',
    title: 'Processes',
    description: 'Which version does each process run, since when, and how busy is it? 100 % CPU is one core.',
    labels: { instance: 'Instance', version: 'Version', node_version: 'Node.js' },
    columns: [
      {
        title: 'Up for',
        width: 90,
        unit: 'seconds',
        expr: ofProcess(`time() - ${ofAgent('process_start_time_seconds')}`),
      },
      {
        title: 'Starts (24 h)',
        width: 125,
        expr: ofProcess(`1 + changes(${ofAgent('process_start_time_seconds')}[24h])`),
        thresholds: { warning: 3, critical: 10, calm: 'text' },
      },
      { title: 'Config loaded', width: 120, unit: 'seconds', expr: ofProcess(`time() - ${ofAgent(CONFIG_LOADED)}`) },
      {
        title: 'CPU',
        width: 80,
        unit: 'share',
        expr: ofProcess(`rate(${ofAgent('process_cpu_seconds_total')}[$__rate_interval])`),
      },
      { title: 'Memory', width: 100, unit: 'bytes', expr: ofProcess(ofAgent('process_resident_memory_bytes')) },
      {
        title: 'Event loop p99',
        width: 130,
        unit: 'seconds',
        expr: ofProcess(ofAgent('nodejs_eventloop_lag_p99_seconds')),
      },
    ],
    sortBy: ['Starts (24 h)'],
    noValue: 'no agent is scraped',
    width: 24,
    height: 5,
  },
];

/** Rows of the dashboard about the agent: freshness and cost of the data, health of the process. */
export const agentDashboard: readonly RowSpec[] = [
  { title: 'Freshness', panels: freshness },
  { title: 'API requests', panels: api },
  { title: 'The process', panels: processes },
  { title: 'Data quality and notifications', isCollapsed: true, panels: quality },
  { title: 'Processes that share a database', isCollapsed: true, panels: shared },
];
