import { seriesDropped } from '../src/collectors/cap.ts';
import { dlq } from '../src/collectors/dlq/dlq.ts';
import { events } from '../src/collectors/events/events.ts';
import { alertingFamilies } from '../src/metrics/alerting.ts';
import { leaderFamilies } from '../src/metrics/leader.ts';
import { ownFamilies } from '../src/metrics/own.ts';
import { highestOf, lowestOf } from '../src/rules/promql.ts';
import { ofRow, ofSeries } from './dashboard-links.ts';
import { SUCCEEDED } from './palette.ts';
import { each, one, type PanelSpec, type RowSpec } from './panel.ts';
import {
  ACCOUNT_LEGEND,
  age,
  chosen,
  flow,
  highestTen,
  inRange,
  least,
  level,
  ofAgent,
  ofAgents,
  onlyTen,
  PER_TEN,
  quantile,
  rise,
} from './queries.ts';

const own = ownFamilies;
const { newest, gaps, late, duplicates, untracked } = events.families;
const ROUND = `${ACCOUNT_LEGEND} {{collector}} {{round}}`;
const round = ['collector', 'round'] as const;
const account = { keep: ['account'] } as const;
const requestsLeft = lowestOf(`${chosen(own.budgetRemaining)} / ${chosen(own.budgetLimit)}`);
const FEW_LEFT = { warning: 0.25, critical: 0.1 };

const stats: readonly PanelSpec[] = [
  {
    kind: 'stat',
    title: 'Agents',
    description: 'How many agents are scraped?',
    width: 12,
    queries: one(`count(${ofAgent('delivery_watch_build_info')})`),
    noValue: 'none',
  },
  {
    kind: 'stat',
    title: 'Fewest requests left',
    description: 'Which account has the smallest share of its request budget for this UTC day left?',
    unit: 'share',
    queries: each(ACCOUNT_LEGEND, least(requestsLeft)),
    thresholds: FEW_LEFT,
    noValue: 'unknown',
  },
];

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
    title: 'Round duration',
    description: `How long do rounds take? ${PER_TEN}`,
    unit: 'seconds',
    queries: each(ROUND, highestTen(own.duration, round)),
    links: ofSeries('agent'),
    noValue: 'no round has ended yet',
  },
  {
    title: 'Age of the newest event',
    description:
      'How far does the event log lag? An idle account has old events, too. The ten that are oldest at the end.',
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
    title: 'Requests by endpoint',
    description: 'Which endpoints does the agent call?',
    width: 8,
    unit: 'requests/s',
    queries: each('{{endpoint}}', flow(own.requests, { keep: ['endpoint'] })),
  },
  {
    kind: 'stack',
    title: 'Requests by outcome',
    description: 'How do requests end? Anything but ok delays data.',
    width: 8,
    unit: 'requests/s',
    queries: each('{{outcome}}', flow(own.requests, { keep: ['outcome'] })),
  },
  {
    title: 'Request duration, p95',
    description: 'How long does the service take to respond, all accounts together?',
    width: 8,
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
      'Does the daily budget of each account last until 00:00 UTC? At the pace of the last hour. Waiting: requests that wait for the budget, on average. Above 1, the budget is too low and rounds are late.',
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
    kind: 'table',
    title: 'Label values over the limit',
    description: 'How many label values are summed as __other__? Their sum is kept, but not their names.',
    labels: { account: 'Account', family: 'Family' },
    columns: [
      { title: 'Values', expr: `topk(50, ${level(seriesDropped, { keep: ['account', 'family'] })} > 0)`, bar: {} },
    ],
    sortBy: ['Values'],
    links: { Account: ofRow('agent', 'overview') },
    noValue: 'None: every label value has its series',
  },
];

const { leader, renewals, renewalSeconds } = leaderFamilies;
const NOT_SHARED = 'the store is not shared';

const shared: readonly PanelSpec[] = [
  {
    kind: 'table',
    title: 'Leader and standbys',
    description:
      'Which process leads its schema, and does each reach the database? Each schema has one leader. Requests must stay far below the lease time.',
    labels: { instance: 'Instance', schema: 'Schema' },
    columns: [
      { title: 'Leads', expr: `max by (instance, schema) (${ofAgents(leader)})` },
      {
        title: 'Failed, last hour',
        expr: `max by (instance) (increase(${ofAgents(renewals)}[1h]))`,
        thresholds: { warning: 1, critical: 60, calm: 'text' },
      },
      {
        title: 'Requests p95',
        unit: 'seconds',
        expr: quantile(0.95, `sum by (instance, le) (increase(${ofAgents(renewalSeconds, '_bucket')}[1h]))`),
      },
    ],
    sortBy: ['Leads'],
    noValue: NOT_SHARED,
  },
];

const notifications: readonly PanelSpec[] = [
  {
    title: 'Alerts',
    description: 'How many alerts of the agent itself are in which state? Needs alerts.enabled.',
    width: 12,
    queries: each('{{state}}', level(alertingFamilies.alerts, { keep: ['state'] })),
    noValue: 'alerts.enabled is false',
  },
  {
    kind: 'bars',
    title: 'Notifications',
    description:
      'How many notifications were sent in each interval? failed: retried; dropped: alerts that ended before they could be sent.',
    width: 12,
    queries: each(
      '{{outcome}}',
      `sum by (outcome) (increase(${ofAgents(alertingFamilies.notifications)}[$__interval]))`,
    ),
    noValue: 'alerts.enabled is false, or there is no notifier',
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
    description: 'Which versions run, for how long, with which configuration, and how busy? 100 % CPU is one core.',
    labels: { instance: 'Instance', version: 'Version', node_version: 'Node.js' },
    columns: [
      { title: 'Up for', unit: 'seconds', expr: ofProcess(`time() - ${ofAgent('process_start_time_seconds')}`) },
      {
        title: 'Starts (24 h)',
        expr: ofProcess(`1 + changes(${ofAgent('process_start_time_seconds')}[24h])`),
        thresholds: { warning: 3, critical: 10, calm: 'text' },
      },
      { title: 'Config loaded', unit: 'seconds', expr: ofProcess(`time() - ${ofAgent(CONFIG_LOADED)}`) },
      {
        title: 'CPU',
        unit: 'share',
        expr: ofProcess(`rate(${ofAgent('process_cpu_seconds_total')}[$__rate_interval])`),
      },
      { title: 'Event loop p99', unit: 'seconds', expr: ofProcess(ofAgent('nodejs_eventloop_lag_p99_seconds')) },
    ],
    sortBy: ['Starts (24 h)'],
    noValue: 'no agent is scraped',
    width: 24,
    height: 6,
  },
  {
    title: 'Memory',
    description: `How much memory do agents use? ${PER_TEN}`,
    width: 24,
    height: 6,
    unit: 'bytes',
    queries: each(
      '{{instance}}',
      onlyTen(ofAgent('process_resident_memory_bytes'), inRange('max', ofAgent('process_resident_memory_bytes'))),
    ),
  },
];

/** Rows of the dashboard about the agent: freshness and cost of the data, health of the process. */
export const agentDashboard: readonly RowSpec[] = [
  { title: 'At a glance', panels: stats },
  { title: 'Freshness', panels: freshness },
  { title: 'API requests', panels: api },
  { title: 'The process', panels: processes },
  { title: 'Data quality', isCollapsed: true, panels: quality },
  { title: 'Alerts', isCollapsed: true, panels: notifications },
  { title: 'Processes that share a database', isCollapsed: true, panels: shared },
];
