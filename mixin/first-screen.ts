import { dlq } from '../src/collectors/dlq/dlq.ts';
import { events } from '../src/collectors/events/events.ts';
import { DLQ_EXPIRING } from '../src/metrics/thresholds.ts';
import { BUILTIN_KINDS } from '../src/rules/checks/alerts.ts';
import { ofRow, ofSeries, RUNBOOK } from './dashboard-links.ts';
import { kindsTable } from './kinds-table.ts';
import { READABLE, SEVERITY, type Words } from './palette.ts';
import { each, one, type PanelSpec, type RowSpec } from './panel.ts';
import { placeholder } from './placeholder.ts';
import {
  ACCOUNT_LEGEND,
  blind,
  changeOver,
  highestTen,
  inLastHour,
  level,
  ofAgent,
  PER_TEN,
  problemAge,
  problemSeverity,
  problems,
  quantile,
  retentionUsed,
  rise,
  worst,
} from './queries.ts';

const { finished, timeToDeliver } = events.families;
const { messages } = dlq.families;

const STATE: Words = { 0: ['OK', 'green'], 1: ['WARNING', 'orange'], 2: ['CRITICAL', 'red'] };
/** Highest severity of the problems; absent if no agent is scraped. */
const state = `0 * count(${problems('critical')}) + 2
or 0 * count(${problems('warning')}) + 1
or 0 * count(${ofAgent('delivery_watch_build_info')})`;

/** Messages of each account that were delivered or failed in the last hour. */
export const endedInLastHour = `(${inLastHour(finished, { outcome: /delivered|failed/ })} > 0)`;
/** Share of failed messages in `endedInLastHour`. */
export const failing = `${inLastHour(finished, { outcome: 'failed' })} / ${endedInLastHour}`;

const p95 = quantile(0.95, rise(timeToDeliver, '1h', { keep: ['account', 'le'], suffix: '_bucket' }));

const FAILING = { warning: placeholder('failureBudget'), critical: placeholder('failureBudget14x') } as const;
const SLOW = { warning: placeholder('onTimeSecondsHalf'), critical: placeholder('onTimeSeconds') } as const;
const NOTHING_ENDED = 'no message ended';

const stats: readonly PanelSpec[] = [
  {
    kind: 'stat',
    height: 3,
    title: 'State',
    description: 'Is everything all right? CRITICAL, WARNING: there are problems of that severity.',
    width: 6,
    queries: one(state),
    words: STATE,
    noValue: 'NO AGENT',
  },
  {
    kind: 'stat',
    height: 3,
    title: 'Blind accounts',
    description: 'How many accounts have no current data? Their numbers are old or missing.',
    width: 6,
    queries: one(`sum(${blind})`),
    thresholds: { warning: 1, critical: 1 },
    noValue: 'no agent',
  },
  {
    kind: 'stat',
    height: 3,
    title: 'Failing most (1 h)',
    description:
      'Which account fails most? The share of permanently failed messages among those that ended in the last hour; cancelled ones do not count.',
    unit: 'share',
    queries: each(ACCOUNT_LEGEND, worst(failing)),
    thresholds: FAILING,
    noValue: NOTHING_ENDED,
  },
];

const current: PanelSpec = {
  kind: 'table',
  title: 'Problems',
  description:
    'What is wrong, where, since when, and what to do? Subject: the key, destination or schedule. The runbook is a link if the dashboards were printed with its address.',
  labels: { account: 'Account', kind: 'Kind', subject: 'Subject', alert: 'Runbook' },
  columns: [
    {
      title: 'Severity',
      width: 110,
      expr: problemSeverity,
      words: SEVERITY,
    },
    { title: 'Lasts for', width: 110, unit: 'seconds', expr: problemAge, noValue: 'over a day' },
  ],
  sortBy: ['Severity', 'Lasts for'],
  links: { Runbook: [RUNBOOK], Account: ofRow('overview', 'dlq', 'agent') },
  texts: { Runbook: Object.fromEntries(BUILTIN_KINDS.map(({ kind, alert }) => [kind, alert])) },
  noValue: 'No problem. The panel State shows whether an agent is scraped.',
  width: 24,
  height: 7,
};

const deadLetters: readonly PanelSpec[] = [
  kindsTable({
    title: 'Largest kinds of dead letters',
    description:
      'Which destination fails, with which status, and does it get worse? A kind is a host and route, a status, and a class of error.',
    width: 14,
  }),
  {
    title: 'Dead letters',
    width: 10,
    description: `Since when do messages fail? Number of dead letters of each account. ${PER_TEN}`,
    queries: each(ACCOUNT_LEGEND, highestTen(messages)),
    links: ofSeries('dlq', 'overview'),
    noValue: 'unknown',
  },
];

const accounts: PanelSpec = {
  kind: 'table',
  title: 'Accounts',
  description:
    'Which accounts are in trouble? Unreadable accounts first, then those with the largest share of failures. Click an account for its dashboards. Empty cell: unknown, or no messages.',
  labels: { account: 'Account' },
  columns: [
    { title: 'Data', width: 90, expr: blind, words: READABLE },
    {
      title: 'Failing (1 h)',
      width: 110,
      unit: 'share',
      expr: failing,
      thresholds: FAILING,
    },
    { title: 'p95 (1 h)', width: 100, unit: 'seconds', expr: p95, thresholds: SLOW },
    { title: 'Dead letters', width: 140, expr: level(messages, { keep: ['account'] }), bar: {} },
    {
      title: '± 24 h',
      width: 80,
      expr: changeOver(messages, '24h'),
      thresholds: { warning: 1, critical: 500, calm: 'text' },
    },
    {
      title: 'Retention used',
      width: 150,
      unit: 'share',
      expr: retentionUsed,
      thresholds: { warning: 0.6, critical: DLQ_EXPIRING },
      bar: { full: 1 },
    },
  ],
  sortBy: ['Data', 'Failing (1 h)'],
  links: { Account: ofRow('overview', 'dlq', 'agent') },
  noValue: 'no agent is scraped',
  width: 24,
  height: 7,
};

export const firstScreen: RowSpec = {
  title: 'Is it all right?',
  panels: [...stats, current, ...deadLetters, accounts],
};
