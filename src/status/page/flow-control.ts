import { OTHER } from '../../collectors/index.ts';
import type { AccountView } from '../api/account.ts';
import { type Chart, figure, line } from './charts.ts';
import { labelValue } from './dead-letters.ts';
import { at, change, count, lasting, ratio, things } from './format.ts';
import { type Html, html } from './html.ts';
import { accountPath, type PageContext } from './layout.ts';
import { type Column, dataNote, name, notEnabled, section, shareBar, table, tile, tilePanel } from './tile.ts';

type FlowControl = AccountView['flowControl'];
type Row = FlowControl['rows'][number];

function used(row: Row): Html {
  const { parallelismLimit, parallelismInUse, rateLimit, rateUsed, ratePeriodSeconds, saturation } = row;
  if (saturation === null) return name(null);
  const parts = [
    parallelismLimit !== null && html`<small>${count(parallelismInUse)} of ${count(parallelismLimit)} at once</small>`,
    rateLimit !== null &&
      html`<small>${count(rateUsed)} of ${count(rateLimit)} in ${lasting(ratePeriodSeconds)}</small>`,
  ];
  return html`${shareBar(saturation, 1, 'Saturation')} ${ratio(saturation)}${parts}`;
}

function pausedWords({ paused, waiting }: Pick<Row, 'paused' | 'waiting'>): Html {
  if (paused === null) return name(null);
  if (!paused) return html`no`;
  return html`<span class="tag ${waiting === 0 ? 'plain' : 'warning'}">paused</span>`;
}

function stateOf({ state, stateSince }: Row, now: number): Html {
  if (state === null) return name(null);
  return html`${state.replaceAll('_', ' ')}${stateSince !== null && html`<small>since ${at(stateSince, now)}</small>`}`;
}

/** Shows a changed limit as `parallelism 40 → 200`. */
function lastChange({ lastChange: last }: Row, now: number): Html {
  if (last === null) return name(null);
  const value = (number: number) => (last.limit === 'period' ? lasting(number) : count(number));
  return html`${last.limit} ${value(last.from)} → ${value(last.to)}<small>${at(last.at, now)}</small>`;
}

const COLUMNS: readonly Column<Row>[] = [
  { head: 'key', cell: row => labelValue(row.key) },
  { head: 'waiting', isNumber: true, cell: row => count(row.waiting) },
  { head: 'change', isNumber: true, cell: row => change(row.change) },
  { head: 'time to drain', isNumber: true, cell: row => (row.waiting === 0 ? 'empty' : lasting(row.drainSeconds)) },
];

/** Renders the flow-control keys. A sentence replaces columns for which no value is reported. */
function keys({ rows, keys }: FlowControl, now: number): Html {
  if (rows.length === 0) return keys === 0 ? html`<p class="soft">There are no flow-control keys.</p>` : html``;
  const hasUse = rows.some(({ saturation }) => saturation !== null);
  const hasPause = rows.some(({ paused }) => paused !== null);
  const columns = [...COLUMNS];
  if (rows.some(({ state }) => state !== null)) columns.push({ head: 'state', cell: row => stateOf(row, now) });
  if (hasUse) columns.push({ head: 'in use', isWide: true, cell: used });
  if (hasPause) columns.push({ head: 'paused', cell: pausedWords });
  if (rows.some(({ pinned }) => pinned?.length))
    columns.push({ head: 'pinned', cell: ({ pinned }) => pinned?.join(', ') || name(null) });
  if (rows.some(row => row.lastChange !== null))
    columns.push({ head: 'last changed limit', cell: row => lastChange(row, now) });
  const missing = [!hasUse && 'limits', !hasPause && 'pauses'].filter(word => word !== false);
  return html`${table('Keys, longest waitlist first', columns, rows, { most: 15 })}
${missing.length > 0 && html`<p class="soft">The service does not report ${missing.join(' and ')} of keys.</p>`}`;
}

const keyTiles = ({ keys, beyondCap, beyondCapWaiting, rows, parallelismInUse, parallelismLimit }: FlowControl) => [
  tile(
    'Keys',
    count(keys),
    beyondCap > 0 && html`${count(beyondCap)} beyond the limit of series, with ${count(beyondCapWaiting)} waiting`,
  ),
  rows.some(({ paused }) => paused !== null) &&
    tile('Paused keys', html`${rows.filter(({ paused }) => paused === true).length}`, `of the ${rows.length} shown`),
  parallelismInUse !== null &&
    tile(
      'Parallelism',
      count(parallelismInUse),
      shareBar(parallelismInUse, parallelismLimit, 'Parallelism of the account'),
      html`of ${things(parallelismLimit, 'delivery', 'deliveries')} at once, all keys and messages`,
    ),
];

const WAITING: Chart = {
  kind: 'level',
  lines: [
    line('delivery_flow_control_waitlist_size', 'all keys', 'whole'),
    { family: 'delivery_flow_control_waitlist_size', by: 'flow_control_key', top: 5 },
  ],
};

type Queue = AccountView['queues']['rows'][number];

const queueColumns = (account: string, root: string): readonly Column<Queue>[] => [
  {
    head: 'queue',
    cell({ queue }) {
      const attempts = `${root}${accountPath(account)}/events?queue=${encodeURIComponent(queue)}&state=IN_PROGRESS`;
      return html`${labelValue(queue)}${queue !== OTHER && html`<small><a href="${attempts}">newest attempts</a></small>`}`;
    },
  },
  { head: 'waiting', isNumber: true, cell: row => count(row.lag) },
  { head: 'at once', isNumber: true, cell: row => count(row.parallelismLimit) },
  { head: 'paused', cell: row => pausedWords({ paused: row.paused, waiting: row.lag }) },
];

export function queuesSection(view: AccountView, { root }: PageContext): Html {
  const { enabled, data, rows, beyondCap, beyondCapLag } = view.queues;
  const none = html`<p class="soft">No queues are shown.</p>`;
  const caption = 'Queues, longest first. The service’s number of waiting messages is not reliable';
  const body = html`${dataNote(data, 'queues', view)}
${table(caption, queueColumns(view.account, root), rows, { most: 15, none })}
${beyondCap > 0 && html`<p class="soft">${count(beyondCap)} more beyond the limit of series, with ${count(beyondCapLag)} waiting.</p>`}`;
  const off = html`<p class="soft">The service does not list queues, or <code>collect.queues.enabled</code> is false.</p>`;
  return section('queues', 'Queues', enabled ? body : off);
}

export function flowControlSection(view: AccountView): Html {
  const { flowControl: of } = view;
  const waiting = tile('Waiting', count(of.waiting), 'messages and steps, on all keys');
  const body = html`${dataNote(of.data, 'flow_control', view)}
${tilePanel(waiting, ...keyTiles(of))}
${figure('waiting', 'Waiting', WAITING)}
${keys(of, Date.parse(view.now))}`;
  const none = notEnabled('Waitlists are not read', 'collect.flowControl.enabled');
  return section('flow-control', 'Flow control', of.enabled ? body : none);
}
