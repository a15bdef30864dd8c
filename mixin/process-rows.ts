import { alertingFamilies } from '../src/metrics/alerting.ts';
import { series } from '../src/rules/promql.ts';
import { each, type PanelSpec, type RowSpec } from './panel.ts';
import { highestTen, level, ofAgent, PER_TEN } from './queries.ts';

const rate = (selector: string) => `rate(${selector}[$__rate_interval])`;

const alerting: readonly PanelSpec[] = [
  {
    title: 'Alerts',
    description: 'Which alerts of the agent are pending or firing? Needs alerts.enabled.',
    queries: each('{{alert}} {{state}}', highestTen(level(alertingFamilies.alerts, { keep: ['alert', 'state'] }))),
    hasManyLines: true,
    noValue: 'alerts.enabled is false',
  },
  {
    kind: 'stack',
    title: 'Notifications',
    description:
      'How many notifications were delivered in each interval? failed: retried; dropped: not retried. Needs alerts.enabled and a notifier.',
    queries: each(
      '{{notifier}} {{outcome}}',
      highestTen(
        `sum by (notifier, outcome) (increase(${series(alertingFamilies.notifications, { job: /$job/, instance: /$instance/ })}[$__rate_interval]))`,
      ),
    ),
    hasManyLines: true,
    noValue: 'alerts.enabled is false, or there is no notifier',
  },
];

const processes: readonly PanelSpec[] = [
  {
    title: 'Memory',
    description: `How much memory do agents use? ${PER_TEN}`,
    unit: 'bytes',
    queries: each('{{instance}}', highestTen(ofAgent('process_resident_memory_bytes'))),
    hasManyLines: true,
  },
  {
    title: 'Heap',
    description: `How much of it is the heap of JavaScript? ${PER_TEN}`,
    unit: 'bytes',
    queries: each('{{instance}}', highestTen(ofAgent('nodejs_heap_size_used_bytes'))),
    hasManyLines: true,
  },
  {
    title: 'CPU',
    description: `How much CPU do agents use? 100 % is one core. ${PER_TEN}`,
    unit: 'share',
    queries: each('{{instance}}', highestTen(rate(ofAgent('process_cpu_seconds_total')))),
    hasManyLines: true,
  },
  {
    title: 'Event-loop delay, p99',
    description: `How long is the event loop blocked? ${PER_TEN}`,
    unit: 'seconds',
    queries: each('{{instance}}', highestTen(ofAgent('nodejs_eventloop_lag_p99_seconds'))),
    hasManyLines: true,
  },
  {
    title: 'Garbage collection',
    description: `Which share of time does garbage collection take? ${PER_TEN}`,
    unit: 'share',
    queries: each(
      '{{instance}}',
      highestTen(`sum without (kind) (${rate(ofAgent('nodejs_gc_duration_seconds', {}, '_sum'))})`),
    ),
    hasManyLines: true,
  },
  {
    kind: 'table',
    title: 'Versions',
    description: 'Which versions run, and for how long at most?',
    labels: { instance: 'Instance', version: 'Version', node_version: 'Node.js' },
    columns: [
      {
        title: 'Up for',
        width: 90,
        unit: 'seconds',
        expr: `max by (instance, version, node_version) (${ofAgent('delivery_watch_build_info')} * on (job, instance) group_left () (time() - ${ofAgent('process_start_time_seconds')}))`,
      },
      {
        title: 'Starts (24 h)',
        width: 110,
        expr: `max by (instance, version, node_version) (${ofAgent('delivery_watch_build_info')} * on (job, instance) group_left () (1 + changes(${ofAgent('process_start_time_seconds')}[24h])))`,
        thresholds: { warning: 3, critical: 10, calm: 'text' },
      },
    ],
    sortBy: ['Starts (24 h)'],
    noValue: 'no agent is scraped',
  },
];

export const processRows: readonly RowSpec[] = [
  { title: 'The agent’s own alerts', isCollapsed: true, panels: alerting },
  { title: 'The process', isCollapsed: true, panels: processes },
];
