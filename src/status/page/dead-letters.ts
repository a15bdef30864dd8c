import type { AccountView } from '../api/account.ts';
import { type Chart, figure, line } from './charts.ts';
import { ago, change, count, grouped, lasting, percent, type ServiceNow, serviceNowOf, things } from './format.ts';
import { type Html, html } from './html.ts';
import { entriesPath, type PageContext } from './layout.ts';
import { messageLink, named } from './problems.ts';
import { type Column, dataNote, name, notEnabled, section, shareBar, table, tile, tilePanel } from './tile.ts';

type DeadLetters = AccountView['deadLetters'];
type Entry = Omit<DeadLetters['newestEntries'][number], 'label'>;

/** Display names of dimensions that differ from their keys. */
const DIMENSIONS: Readonly<Record<string, string>> = {
  urlHost: 'host',
  responseStatus: 'response status',
  workflowUrl: 'workflow',
  callbackState: 'state of the failure callback',
};
export const dimensionWords = (of: string) =>
  DIMENSIONS[of] ?? of.replace(/[A-Z]/g, found => ` ${found.toLowerCase()}`);

const STANDING = new Map([
  ['__none__', '(none)'],
  ['__other__', '(all others)'],
  ['__unmatched__', '(no pattern matches)'],
]);
export function labelValue(value: string): Html {
  const words = STANDING.get(value);
  return words === undefined ? name(value) : html`<span class="soft">${words}</span>`;
}

const leftBy = (of: DeadLetters['left']) =>
  of === null
    ? name(null)
    : html`${count(of.expired)} expired · ${count(of.removed)} removed · ${count(of.unknown)} unknown`;

export const statusValue = (value: string): Html =>
  value === '0' ? html`0 <span class="soft">(no response)</span>` : labelValue(value);

const since = (iso: string | null, now: number) => (iso === null ? null : Math.max(0, now - Date.parse(iso)) / 1000);

function numbers(of: DeadLetters, now: ServiceNow): readonly (Html | false)[] {
  const { messages, most, retentionSeconds } = of;
  const waited = since(of.oldestEntered, now.now);
  const used = messages !== null && most !== null && most > 0 && percent(messages / most);
  const isDue = of.nextExpiry !== null && Date.parse(of.nextExpiry) <= now.now;
  const left = of.left && of.left.expired + of.left.removed + of.left.unknown;
  return [
    tile('Dead letters', count(messages), of.change !== null && change(of.change)),
    tile(
      'Oldest entered',
      ago(of.oldestEntered, now),
      shareBar(waited, retentionSeconds, 'Used share of the retention', true),
      retentionSeconds !== null && html`kept for ${lasting(retentionSeconds)}`,
    ),
    tile(
      isDue ? 'Next expiry (overdue)' : 'Next expiry',
      ago(of.nextExpiry, now),
      retentionSeconds === null && html`unknown without <code>retention.dlq</code>`,
    ),
    most !== null &&
      tile(
        'Plan limit used',
        html`${used || '—'}`,
        shareBar(messages, most, 'Plan limit used', true),
        html`of ${count(most)}`,
      ),
    tile('Entered', count(of.entered), 'since the first start'),
    tile('Left', left === null ? name(null) : html`${grouped(left)}`, of.left !== null && leftBy(of.left)),
  ];
}

function breakdowns({ breakdowns, messages }: DeadLetters): Html[] {
  return breakdowns.map(({ dimension, values, beyondCap }) => {
    const sum = messages ?? values.reduce((sum, { messages }) => sum + messages, 0);
    const columns: Column<(typeof values)[number]>[] = [
      {
        head: dimensionWords(dimension),
        cell: ({ value }) => (/status/i.test(dimension) ? statusValue(value) : labelValue(value)),
      },
      { head: 'dead letters', isNumber: true, cell: row => count(row.messages) },
      {
        head: 'share',
        cell: row =>
          html`${shareBar(row.messages, sum, 'Share')} <span>${sum > 0 ? percent(row.messages / sum) : ''}</span>`,
      },
    ];
    const more = beyondCap > 0 && html`<p class="soft">(all others) is the sum of ${things(beyondCap, 'value')}.</p>`;
    const none = html`<p class="soft">By ${dimensionWords(dimension)}: no data.</p>`;
    return html`<div>${values.length === 0 ? none : table(`By ${dimensionWords(dimension)}`, columns, values, { most: 10 })}${more}</div>`;
  });
}

function kinds({ kinds }: DeadLetters, account: string, root: string): Html {
  const columns: Column<(typeof kinds.largest)[number]>[] = [
    {
      head: 'destination',
      cell: ({ urlHost, route, id }) =>
        html`${labelValue(urlHost)} ${route === '' ? '' : labelValue(route)}<small class="mono"><a href="${root + entriesPath(account, id)}">kind ${named(id)}</a></small>`,
    },
    { head: 'status', cell: ({ responseStatus }) => statusValue(responseStatus) },
    { head: 'dead letters', isNumber: true, cell: row => count(row.messages) },
    { head: 'change', isNumber: true, cell: row => change(row.change) },
    { head: 'example', cell: ({ sample }) => html`<span class="mono">${name(sample)}</span>` },
  ];
  const rows = kinds.largest.toSorted((a, b) => (b.change?.by ?? 0) - (a.change?.by ?? 0));
  const rest = html`<p class="soft">A kind is a host, route, status and class of error. ${count(kinds.count)} now; ${count(kinds.appeared)} appeared since the agent’s first start${kinds.others > 0 && html`; ${things(kinds.others, 'dead letter belongs', 'dead letters belong')} to other kinds`}.</p>`;
  return html`<h3>Kinds of dead letters</h3>${table('Kinds, the fastest growing first', columns, rows, { most: 10 })}${rest}`;
}

function callbacks(of: DeadLetters, now: number, root: string): Html {
  if (of.callbacks === null) {
    return html`<h3>Failure callbacks</h3><p class="soft">Unknown: the service does not report their state, or the queue is not read.</p>`;
  }
  const states = Object.entries(of.callbacks).map(([state, number]) => tile(state.replaceAll('_', ' '), count(number)));
  return html`<h3>Failure callbacks</h3>${tilePanel(
    tile(
      'Seem stuck',
      count(of.suspected),
      of.oldestInProgress !== null && html`oldest in progress: ${ago(of.oldestInProgress, now)}`,
      html`<a href="${root}auto-cancel">Auto-cancel</a>`,
    ),
    ...states,
  )}`;
}

function filters({ filters }: DeadLetters, now: ServiceNow): Html {
  const columns: Column<DeadLetters['filters'][number]>[] = [
    {
      head: 'filter',
      cell: row =>
        html`${name(row.name)}${row.failure !== null && html`<small>${name(row.failure.message)}</small>`}${row.proven === false && html`<small>rows do not report every field of match</small>`}`,
    },
    { head: 'dead letters', isNumber: true, cell: row => count(row.messages) },
    { head: 'oldest entered', cell: row => ago(row.oldestEntered, now) },
    { head: 'entered', isNumber: true, cell: row => count(row.entered) },
    { head: 'left', isWide: true, cell: row => leftBy(row.left) },
  ];
  return table('Filters', columns, filters);
}

type Origin = Pick<Entry, 'queue' | 'topic' | 'schedule' | 'labels'>;

export function origin({ queue, topic, schedule, labels }: Origin): Html {
  const parts = Object.entries({ queue, topic, schedule, label: labels.join(', ') || null }).filter(
    ([, value]) => value !== null,
  );
  return html`<small>${parts.map(([what, value], index) => html`${index > 0 && ' · '}${what} ${name(value)}`)}</small>`;
}

export function status({ responseStatus, callbackState }: Pick<Entry, 'responseStatus' | 'callbackState'>): Html {
  const written = responseStatus === 0 ? 'no response' : (responseStatus ?? '—');
  return html`<data value="${responseStatus}">${written}</data>${callbackState !== null && html`<small>callback ${callbackState.replaceAll('_', ' ')}</small>`}`;
}

export function entries(
  caption: string,
  rows: readonly Entry[],
  { account, now, root, most = 20 }: { account: string; now: number | ServiceNow; root: string; most?: number },
): Html {
  const columns: Column<Entry>[] = [
    {
      head: 'id',
      cell: row =>
        html`<span class="mono">${name(row.dlqId)}</span>${row.messageId !== null && html`<small class="mono">${messageLink(account, row.messageId, { root })}</small>`}`,
    },
    {
      head: 'destination',
      isWide: true,
      cell: row => html`${row.method && `${row.method} `}${name(row.url)}${origin(row)}`,
    },
    { head: 'status', cell: status },
    { head: 'entered', cell: row => ago(row.enteredAt, now) },
    { head: 'created', cell: row => ago(row.createdAt, now) },
  ];
  return table(caption, columns, rows, { most });
}

const SIZE: Chart = { kind: 'level', lines: [line('delivery_dlq_messages', 'dead letters', 'calm')] };
const FLOW: Chart = {
  kind: 'rate',
  lines: [
    line('delivery_dlq_entered_total', 'entered', 'bad'),
    line('delivery_dlq_left_total', 'removed', 'calm', { reason: 'removed' }),
    line('delivery_dlq_left_total', 'expired', 'odd', { reason: 'expired' }),
    line('delivery_dlq_left_total', 'left, reason unknown', 'muted', { reason: 'unknown' }),
  ],
};

export function deadLettersSection(view: AccountView, { root }: PageContext): Html {
  const { account, deadLetters: of } = view;
  const now = serviceNowOf(view);
  const place = { account, now, root };
  // Times of callbacks are by the agent's clock.
  const seen = callbacks(of, Date.parse(view.now), root);
  const body = html`${dataNote(of.data, 'dlq', view)}
${tilePanel(...numbers(of, now))}
<div class="grid" id="dlq-charts">${figure('dlq-size', 'Queue size', SIZE)}${figure('dlq-flow', 'Entered and removed', FLOW)}</div>
${of.messages === 0 ? html`<p class="soft">The queue is empty.</p>` : html`<div class="grid tables">${breakdowns(of)}</div>${kinds(of, account, root)}`}
${filters(of, now)}
${seen}
${entries('The ten newest entries', of.newestEntries, place)}${of.newestEntries.length > 0 && html`<p><a href="${root + entriesPath(account)}">More new entries</a></p>`}
${entries('The ten longest-queued entries', of.longestEntries, place)}`;
  return section('dead-letters', 'Dead letters', of.enabled ? body : notEnabled('Not read', 'collect.dlq.enabled'));
}
