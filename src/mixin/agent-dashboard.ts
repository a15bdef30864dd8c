import { highestOf, lowestOf, series } from '../alerts/promql.ts';
import { seriesDropped } from '../collectors/cap.ts';
import { events } from '../collectors/events/events.ts';
import { alertingFamilies } from '../metrics/alerting.ts';
import { ownFamilies } from '../metrics/own.ts';
import { age, chosen, each, flow, level, ofAgent, one, type RowSpec } from './panel.ts';

const own = ownFamilies;
const { newest, gaps, late, duplicates, untracked } = events.families;
const ROUND = '{{account}} {{collector}} {{round}}';
const rate = (selector: string) => `rate(${selector}[$__rate_interval])`;

/** Whether the numbers are true, what they cost, and how the process is. */
export const agentDashboard: readonly RowSpec[] = [
  {
    title: 'At a glance',
    panels: [
      {
        kind: 'stat',
        title: 'Agents',
        description: 'How many agents are scraped?',
        queries: one(`count(${ofAgent('delivery_watch_build_info')})`),
      },
      {
        kind: 'stat',
        title: 'Accounts up',
        description: 'For which share of accounts did the last round of every collector succeed?',
        unit: 'percentunit',
        queries: one(`avg(${highestOf(chosen(own.up))})`),
        thresholds: { warning: 1, critical: 0.5 },
      },
      {
        kind: 'stat',
        title: 'Stale rounds',
        description: 'How many rounds have stale data: no complete round for several intervals?',
        queries: one(`sum(${lowestOf(chosen(own.dataStale), own.dataStale.labels)})`),
        thresholds: { warning: 1, critical: 2 },
      },
      {
        kind: 'stat',
        title: 'Tokens rejected',
        description: 'How many accounts have a token that the service rejects?',
        queries: one(level(own.tokenRejected)),
        thresholds: { warning: 1, critical: 1 },
      },
      {
        kind: 'stat',
        title: 'Requests left today, lowest',
        description: 'How many requests has the account with the lowest budget left for this UTC day?',
        queries: one(`min(${chosen(own.budgetRemaining)})`),
      },
      {
        kind: 'stat',
        title: 'Configuration age',
        description: 'How long has the current configuration been in use?',
        unit: 'dtdurations',
        queries: one(`time() - max(${ofAgent('delivery_watch_config_last_reload_success_timestamp_seconds')})`),
      },
    ],
  },
  {
    title: 'Freshness and completeness',
    panels: [
      {
        kind: 'states',
        title: 'Round success',
        description: 'Did the last attempt of each round succeed?',
        unit: 'bool',
        queries: each(ROUND, `max by (account, collector, round) (${chosen(own.success)})`),
      },
      {
        title: 'Age of the data',
        description: 'How long ago did the last complete round begin?',
        unit: 'dtdurations',
        queries: each(ROUND, `time() - max by (account, collector, round) (${chosen(own.dataTimestamp)})`),
      },
      {
        title: 'Round duration',
        description: 'How long do rounds take?',
        unit: 's',
        queries: each(ROUND, `max by (account, collector, round) (${chosen(own.duration)})`),
      },
      {
        title: 'Consecutive failures',
        description: 'How many attempts of a round have failed since its last success?',
        queries: each(ROUND, `max by (account, collector, round) (${chosen(own.consecutiveFailures)})`),
      },
      {
        kind: 'stack',
        title: 'Unreadable rows and lists',
        description: 'How many rows or lists could the agent not parse? Should be none.',
        unit: 'cps',
        queries: [
          { legend: '{{collector}} rows', expr: flow(own.rowsRejected, ['collector']) },
          { legend: '{{collector}} lists', expr: flow(own.listsMissing, ['collector']) },
        ],
      },
      {
        title: 'Label values beyond caps',
        description: 'How many label values are summed as __other__?',
        queries: each('{{family}}', level(seriesDropped, ['family'])),
      },
    ],
  },
  {
    title: 'API requests',
    panels: [
      {
        kind: 'stack',
        title: 'Requests by endpoint',
        description: 'Which endpoints does the agent call?',
        unit: 'reqps',
        queries: each('{{endpoint}}', flow(own.requests, ['endpoint'])),
      },
      {
        kind: 'stack',
        title: 'Requests by outcome',
        description: 'How do requests end? Anything but ok delays data.',
        unit: 'reqps',
        queries: each('{{outcome}}', flow(own.requests, ['outcome'])),
      },
      {
        title: 'Rate-limited requests',
        description: 'How many requests are answered with 429?',
        unit: 'reqps',
        queries: each('{{account}}', flow(own.requests, ['account'], { outcome: 'rate_limited' })),
      },
      {
        title: 'Request duration, p95',
        description: 'How long does the service take to respond, all accounts together?',
        unit: 's',
        queries: each(
          '{{endpoint}}',
          `histogram_quantile(0.95, sum by (endpoint, le) (${rate(ofAgent('delivery_watch_api_request_duration_seconds', {}, '_bucket'))}))`,
        ),
      },
      {
        title: 'Bytes received',
        description: 'How many bytes of responses does the agent receive?',
        unit: 'Bps',
        queries: each('{{endpoint}}', flow(own.responseBytes, ['endpoint'])),
      },
      {
        title: 'Budget wait',
        description:
          'How many seconds per second do requests wait for the budget? If it exceeds the request rate, the budget is too low.',
        queries: each('{{account}}', flow(own.budgetWait, ['account'])),
      },
      {
        title: 'Requests left today',
        description: 'Does the daily budget last until 00:00 UTC?',
        queries: each('{{account}}', `min by (account) (${chosen(own.budgetRemaining)})`),
      },
    ],
  },
  {
    title: 'The event log',
    isCollapsed: true,
    panels: [
      {
        title: 'Age of the newest event',
        description: 'How far does the log lag? An idle account has old events, too.',
        unit: 'dtdurations',
        queries: each('{{account}}', age(newest, ['account'])),
      },
      {
        kind: 'stack',
        title: 'Log anomalies',
        description: 'Were events late, listed twice, or missing?',
        unit: 'cps',
        queries: [
          { legend: 'late', expr: flow(late) },
          { legend: 'listed twice', expr: flow(duplicates) },
          { legend: 'gaps', expr: flow(gaps) },
        ],
      },
      {
        kind: 'stack',
        title: 'Untracked messages',
        description: 'For how many messages could the lifecycle not be tracked, and why?',
        unit: 'cps',
        queries: each('{{reason}}', flow(untracked, ['reason'])),
      },
    ],
  },
  {
    title: 'The agent’s own alerts',
    isCollapsed: true,
    panels: [
      {
        title: 'Alerts',
        description: 'Which alerts of the agent are pending or firing? Needs alerts.enabled.',
        queries: each('{{alert}} {{state}}', level(alertingFamilies.alerts, ['alert', 'state'])),
      },
      {
        kind: 'stack',
        title: 'Notifications',
        description:
          'Are notifications delivered? failed: retried; dropped: not retried. Needs alerts.enabled and a notifier.',
        unit: 'cps',
        queries: each(
          '{{notifier}} {{outcome}}',
          `sum by (notifier, outcome) (${rate(series(alertingFamilies.notifications, { job: /$job/, instance: /$instance/ }))})`,
        ),
      },
    ],
  },
  {
    title: 'The process',
    isCollapsed: true,
    panels: [
      {
        title: 'Memory',
        description: 'How much memory does the agent use, and how much of it is heap?',
        unit: 'bytes',
        queries: [
          { legend: '{{instance}} resident', expr: ofAgent('process_resident_memory_bytes') },
          { legend: '{{instance}} heap', expr: ofAgent('nodejs_heap_size_used_bytes') },
        ],
      },
      {
        title: 'CPU',
        description: 'How much CPU does the agent use? 100 % is one core.',
        unit: 'percentunit',
        queries: each('{{instance}}', rate(ofAgent('process_cpu_seconds_total'))),
      },
      {
        title: 'Event-loop delay, p99',
        description: 'How long is the event loop blocked?',
        unit: 's',
        queries: each('{{instance}}', ofAgent('nodejs_eventloop_lag_p99_seconds')),
      },
      {
        title: 'Garbage collection',
        description: 'Which share of time does garbage collection take?',
        unit: 'percentunit',
        queries: each('{{instance}} {{kind}}', rate(ofAgent('nodejs_gc_duration_seconds', {}, '_sum'))),
      },
      {
        title: 'Restarts per hour',
        description: 'How often does the agent restart?',
        queries: each('{{instance}}', `changes(${ofAgent('process_start_time_seconds')}[1h])`),
      },
      {
        kind: 'table',
        title: 'Versions',
        description: 'Which versions are running?',
        queries: each('{{version}}', `count by (version, node_version) (${ofAgent('delivery_watch_build_info')})`),
      },
    ],
  },
];
