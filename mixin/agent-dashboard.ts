import { seriesDropped } from '../src/collectors/cap.ts';
import { dlq } from '../src/collectors/dlq/dlq.ts';
import { events } from '../src/collectors/events/events.ts';
import { ownFamilies } from '../src/metrics/own.ts';
import { highestOf, lowestOf } from '../src/rules/promql.ts';
import { ofRow, ofSeries } from './dashboard-links.ts';
import { blindAccounts } from './first-screen.ts';
import { SUCCEEDED } from './palette.ts';
import { each, one, type PanelSpec, type RowSpec } from './panel.ts';
import { processRows } from './process-rows.ts';
import { ACCOUNT_LEGEND, age, chosen, flow, highestTen, least, level, lowestTen, ofAgent, PER_TEN } from './queries.ts';
import { replicaRow } from './replica-rows.ts';

const own = ownFamilies;
const { newest, gaps, late, duplicates, untracked } = events.families;
const ROUND = `${ACCOUNT_LEGEND} {{collector}} {{round}}`;
const round = ['collector', 'round'] as const;
const account = { keep: ['account'] } as const;
const rate = (selector: string) => `rate(${selector}[$__rate_interval])`;

const stats: readonly PanelSpec[] = [
  {
    kind: 'stat',
    title: 'Agents',
    description: 'How many agents are scraped?',
    queries: one(`count(${ofAgent('delivery_watch_build_info')})`),
    noValue: 'none',
  },
  blindAccounts,
  {
    kind: 'stat',
    title: 'Not up',
    description: 'Of how many accounts did the last round of some collector fail? One failure does not make data old.',
    queries: one(`sum(1 - ${highestOf(chosen(own.up))})`),
    thresholds: { warning: 1, critical: Number.MAX_SAFE_INTEGER },
    noValue: 'not scraped',
  },
  {
    kind: 'stat',
    title: 'Tokens rejected',
    description: 'How many accounts have a token that the service rejects?',
    queries: one(level(own.tokenRejected)),
    thresholds: { warning: 1, critical: 1 },
    noValue: 'no answer yet',
  },
  {
    kind: 'stat',
    title: 'Fewest requests left',
    description: 'Which account has the fewest requests of its budget left for this UTC day?',
    queries: each(ACCOUNT_LEGEND, least(lowestOf(chosen(own.budgetRemaining)))),
    thresholds: { warning: 1000, critical: 100, calm: 'text' },
    noValue: 'unknown',
  },
  {
    kind: 'stat',
    title: 'Config age',
    description: 'For how long has the oldest configuration been in use?',
    unit: 'seconds',
    queries: one(`time() - min(${ofAgent('delivery_watch_config_last_reload_success_timestamp_seconds')})`),
    noValue: 'unknown',
  },
];

const freshness: readonly PanelSpec[] = [
  {
    kind: 'states',
    title: 'Rounds',
    description: 'Did the last attempt of each round succeed? Of many, the ten that fail most.',
    words: SUCCEEDED,
    queries: each(ROUND, lowestTen(highestOf(chosen(own.success), round), 'avg')),
    noValue: 'no round has ended yet',
  },
  {
    title: 'Age of the data',
    description: `How long ago did the last complete round begin? ${PER_TEN}`,
    unit: 'seconds',
    queries: each(ROUND, highestTen(`time() - ${highestOf(chosen(own.dataTimestamp), round)}`)),
    hasManyLines: true,
    links: ofSeries('agent'),
    noValue: 'no round is complete yet',
  },
  {
    title: 'Round duration',
    description: `How long do rounds take? ${PER_TEN}`,
    unit: 'seconds',
    queries: each(ROUND, highestTen(highestOf(chosen(own.duration), round))),
    hasManyLines: true,
    links: ofSeries('agent'),
    noValue: 'no round has ended yet',
  },
  {
    title: 'Consecutive failures',
    description: `How many attempts of a round have failed since its last success? ${PER_TEN}`,
    queries: each(ROUND, highestTen(highestOf(chosen(own.consecutiveFailures), round))),
    hasManyLines: true,
    links: ofSeries('agent'),
  },
  {
    kind: 'stack',
    title: 'Unreadable rows and lists',
    description: 'How many rows or lists could the agent not parse? Should be none.',
    unit: 'rows/s',
    queries: [
      { legend: '{{collector}} rows', expr: flow(own.rowsRejected, { keep: ['collector'] }) },
      { legend: '{{collector}} lists', expr: flow(own.listsMissing, { keep: ['collector'] }) },
    ],
  },
  {
    kind: 'table',
    title: 'Label values beyond caps',
    description: 'How many label values are summed as __other__? Not their number is lost, but their names.',
    labels: { account: 'Account', family: 'Family' },
    columns: [
      { title: 'Values', expr: `topk(50, ${level(seriesDropped, { keep: ['account', 'family'] })} > 0)`, bar: {} },
    ],
    sortBy: ['Values'],
    links: { Account: ofRow('agent', 'overview') },
    noValue: 'None: every label value has its series',
  },
];

const api: readonly PanelSpec[] = [
  {
    kind: 'stack',
    title: 'Requests by endpoint',
    description: 'Which endpoints does the agent call?',
    unit: 'requests/s',
    queries: each('{{endpoint}}', flow(own.requests, { keep: ['endpoint'] })),
  },
  {
    kind: 'stack',
    title: 'Requests by outcome',
    description: 'How do requests end? Anything but ok delays data.',
    unit: 'requests/s',
    queries: each('{{outcome}}', flow(own.requests, { keep: ['outcome'] })),
  },
  {
    title: 'Rate-limited requests',
    description: `How many requests are answered with 429? ${PER_TEN}`,
    unit: 'requests/s',
    queries: each(ACCOUNT_LEGEND, highestTen(flow(own.requests, { ...account, where: { outcome: 'rate_limited' } }))),
    hasManyLines: true,
    links: ofSeries('agent'),
  },
  {
    title: 'Request duration, p95',
    description: 'How long does the service take to respond, all accounts together?',
    unit: 'seconds',
    queries: each(
      '{{endpoint}}',
      `histogram_quantile(0.95, sum by (endpoint, le) (${rate(ofAgent('delivery_watch_api_request_duration_seconds', {}, '_bucket'))})) >= 0`,
    ),
  },
  {
    title: 'Bytes received',
    description: 'How many bytes of responses does the agent receive?',
    unit: 'bytes/s',
    queries: each('{{endpoint}}', flow(own.responseBytes, { keep: ['endpoint'] })),
  },
  {
    title: 'Waiting for the budget',
    description: `How many requests wait for the budget at a time, on average? Above 1, rounds come late: the budget is too low. ${PER_TEN}`,
    unit: 'number',
    queries: each(ACCOUNT_LEGEND, highestTen(flow(own.budgetWait, account))),
    hasManyLines: true,
    links: ofSeries('agent'),
  },
  {
    title: 'Requests left today',
    description: 'Does the daily budget last until 00:00 UTC? The ten accounts with the fewest.',
    queries: each(ACCOUNT_LEGEND, lowestTen(lowestOf(chosen(own.budgetRemaining)))),
    hasManyLines: true,
    links: ofSeries('agent'),
    width: 24,
  },
];

const eventLog: readonly PanelSpec[] = [
  {
    title: 'Age of the newest event',
    description: `How far does the log lag? An idle account has old events, too. ${PER_TEN}`,
    unit: 'seconds',
    queries: each(ACCOUNT_LEGEND, highestTen(age(newest))),
    hasManyLines: true,
    links: ofSeries('agent', 'overview'),
    noValue: 'no event was ever read',
  },
  {
    kind: 'stack',
    title: 'Log anomalies',
    description: 'Were events late, listed twice, or missing?',
    unit: 'events/s',
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
    unit: 'messages/s',
    queries: each('{{reason}}', flow(untracked, { keep: ['reason'] })),
  },
  {
    kind: 'stack',
    title: 'Dead letters found late',
    description: `How many messages did only a complete walk of the dead-letter queue find? Should be none: the service listed them too late for reads of new entries. ${PER_TEN}`,
    unit: 'messages/s',
    queries: each(ACCOUNT_LEGEND, highestTen(flow(dlq.families.foundByRescan, account))),
    hasManyLines: true,
  },
];

/** Freshness and cost of the data, and health of the process. */
export const agentDashboard: readonly RowSpec[] = [
  { title: 'At a glance', panels: stats },
  { title: 'Freshness and completeness', panels: freshness },
  { title: 'API requests', panels: api },
  { title: 'The event log', isCollapsed: true, panels: eventLog },
  replicaRow,
  ...processRows,
];
