import { highest, lowest, series } from '../alerts/promql.ts';
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
        description: 'How many agents are there?',
        queries: one(`count(${ofAgent('delivery_watch_build_info')})`),
      },
      {
        kind: 'stat',
        title: 'Accounts that can be read',
        description: 'For which share of the accounts did the last round of every collector succeed?',
        unit: 'percentunit',
        queries: one(`avg(${highest(chosen(own.up))})`),
        thresholds: { warning: 1, critical: 0.5 },
      },
      {
        kind: 'stat',
        title: 'Stale rounds',
        description: 'How many rounds have not come through for so long that what they read is stale?',
        queries: one(`sum(${lowest(chosen(own.dataStale))})`),
        thresholds: { warning: 1, critical: 2 },
      },
      {
        kind: 'stat',
        title: 'Tokens refused',
        description: 'How many accounts have a token that the service refuses?',
        queries: one(level(own.tokenRejected)),
        thresholds: { warning: 1, critical: 1 },
      },
      {
        kind: 'stat',
        title: 'Budget left today',
        description: 'How many requests does the tightest account’s budget leave for this UTC day?',
        queries: one(`min(${chosen(own.budgetRemaining)})`),
      },
      {
        kind: 'stat',
        title: 'Configuration in use since',
        description: 'For how long has the configuration been in use?',
        unit: 'dtdurations',
        queries: one(`time() - max(${ofAgent('delivery_watch_config_last_reload_success_timestamp_seconds')})`),
      },
    ],
  },
  {
    title: 'How true the numbers are',
    panels: [
      {
        kind: 'states',
        title: 'Rounds that succeed',
        description: 'Did the last attempt of each round succeed?',
        unit: 'bool',
        queries: each(ROUND, `max by (account, collector, round) (${chosen(own.success)})`),
      },
      {
        title: 'Age of the data',
        description: 'How old is what each round last read completely?',
        unit: 'dtdurations',
        queries: each(ROUND, `time() - max by (account, collector, round) (${chosen(own.dataTimestamp)})`),
      },
      {
        title: 'Duration of rounds',
        description: 'How long do rounds take?',
        unit: 's',
        queries: each(ROUND, `max by (account, collector, round) (${chosen(own.duration)})`),
      },
      {
        title: 'Failures in a row',
        description: 'How many attempts of a round have failed since the last that succeeded?',
        queries: each(ROUND, `max by (account, collector, round) (${chosen(own.consecutiveFailures)})`),
      },
      {
        kind: 'stack',
        title: 'Rows that could not be read',
        description:
          'Does the service answer with rows that make no sense, or without the list that belongs there? Should be none.',
        unit: 'cps',
        queries: [
          { legend: '{{collector}} rows', expr: flow(own.rowsRejected, ['collector']) },
          { legend: '{{collector}} lists', expr: flow(own.listsMissing, ['collector']) },
        ],
      },
      {
        title: 'Values beyond caps',
        description: 'How many label values are folded into __other__?',
        queries: each('{{family}}', level(seriesDropped, ['family'])),
      },
    ],
  },
  {
    title: 'The service’s interface',
    panels: [
      {
        kind: 'stack',
        title: 'Requests by endpoint',
        description: 'What is asked of the service?',
        unit: 'reqps',
        queries: each('{{endpoint}}', flow(own.requests, ['endpoint'])),
      },
      {
        kind: 'stack',
        title: 'Requests by outcome',
        description: 'What does the service answer? Anything but ok costs the data its freshness.',
        unit: 'reqps',
        queries: each('{{outcome}}', flow(own.requests, ['outcome'])),
      },
      {
        title: 'Limited requests',
        description: 'How many requests are answered with 429?',
        unit: 'reqps',
        queries: each('{{account}}', flow(own.requests, ['account'], { outcome: 'rate_limited' })),
      },
      {
        title: 'Duration of requests, p95',
        description: 'How long does the service take to answer, all accounts together?',
        unit: 's',
        queries: each(
          '{{endpoint}}',
          `histogram_quantile(0.95, sum by (endpoint, le) (${rate(ofAgent('delivery_watch_api_request_duration_seconds', {}, '_bucket'))}))`,
        ),
      },
      {
        title: 'Received',
        description: 'How many bytes do answers take on the wire?',
        unit: 'Bps',
        queries: each('{{endpoint}}', flow(own.responseBytes, ['endpoint'])),
      },
      {
        title: 'Waiting for the budget',
        description:
          'How many seconds a second do requests wait for their turn? More than their number: the budget is too tight.',
        queries: each('{{account}}', flow(own.budgetWait, ['account'])),
      },
      {
        title: 'Requests left today',
        description: 'Does the day’s budget last the day?',
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
        description: 'How far is the log behind? An account at rest has old events, too.',
        unit: 'dtdurations',
        queries: each('{{account}}', age(newest, ['account'])),
      },
      {
        kind: 'stack',
        title: 'What the log did',
        description: 'Were events late, listed twice, or missing?',
        unit: 'cps',
        queries: [
          { legend: 'late', expr: flow(late) },
          { legend: 'listed twice', expr: flow(duplicates) },
          { legend: 'holes', expr: flow(gaps) },
        ],
      },
      {
        kind: 'stack',
        title: 'Messages that could not be followed',
        description: 'Of how many messages is the life not known, and why?',
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
        description: 'Which of the agent’s own rules have alerts? Needs alerts.enabled.',
        queries: each('{{alert}} {{state}}', level(alertingFamilies.alerts, ['alert', 'state'])),
      },
      {
        kind: 'stack',
        title: 'Notifications',
        description:
          'Do notifications arrive? failed is tried again, dropped is not. Needs alerts.enabled and a notifier.',
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
        description: 'How much memory does the agent take, and how much of it is its heap?',
        unit: 'bytes',
        queries: [
          { legend: '{{instance}} resident', expr: ofAgent('process_resident_memory_bytes') },
          { legend: '{{instance}} heap', expr: ofAgent('nodejs_heap_size_used_bytes') },
        ],
      },
      {
        title: 'Processor',
        description: 'How many processors does the agent keep busy?',
        unit: 'percentunit',
        queries: each('{{instance}}', rate(ofAgent('process_cpu_seconds_total'))),
      },
      {
        title: 'Event-loop delay, p99',
        description: 'For how long does something hold up everything else?',
        unit: 's',
        queries: each('{{instance}}', ofAgent('nodejs_eventloop_lag_p99_seconds')),
      },
      {
        title: 'Garbage collection',
        description: 'Which share of the time is spent on collecting garbage?',
        unit: 'percentunit',
        queries: each('{{instance}} {{kind}}', rate(ofAgent('nodejs_gc_duration_seconds', {}, '_sum'))),
      },
      {
        title: 'Restarts an hour',
        description: 'Does the agent end and begin again?',
        queries: each('{{instance}}', `changes(${ofAgent('process_start_time_seconds')}[1h])`),
      },
      {
        kind: 'table',
        title: 'Versions',
        description: 'Which versions run, and do they agree?',
        queries: each('{{version}}', `count by (version, node_version) (${ofAgent('delivery_watch_build_info')})`),
      },
    ],
  },
];
