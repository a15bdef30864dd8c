import type { AccountView } from '../api/account.ts';
import { type Chart, figure, line } from './charts.ts';
import { ago, count, grouped, lasting, percent, ratio, type ServiceNow, serviceNowOf, span } from './format.ts';
import { type Html, html } from './html.ts';
import { accountPath, type PageContext } from './layout.ts';
import { type Column, dataNote, name, notEnabled, section, table, tile, tiles } from './tile.ts';

type Events = AccountView['events'];

/** Formats the upper bound of a quantile's bucket: `≤ 5 s`. */
function bound(atMost: number | null, delivered: number): Html {
  if (atMost === null && delivered > 0) return html`<span class="soft">above the last bucket</span>`;
  return html`${atMost !== null && '≤ '}${lasting(atMost)}`;
}

function timeToDeliver({ timeToDeliver: of, delivered }: NonNullable<Events['lastHour']>): Html | false {
  const main = of.at(-1);
  if (main === undefined) return false;
  const word = (quantile: number) => html`<data value="${quantile}">p${grouped(quantile * 100)}</data>`;
  return tile(
    html`Time to deliver, ${word(main.quantile)}`,
    bound(main.atMostSeconds, delivered),
    ...of.slice(0, -1).map(each => html`${word(each.quantile)} ${bound(each.atMostSeconds, delivered)}`),
  );
}

function lastHour({ lastHour: of, objectives }: Events): readonly (Html | false)[] {
  const objective = html`objective ${ratio(objectives.delivered)}`;
  if (of === null) return [tile('Delivered in the last hour', name(null), 'unknown', objective)];
  const isMissed = of.deliveredRatio !== null && of.deliveredRatio < objectives.delivered;
  const over = span(of.overSeconds);
  return [
    tile(
      'Delivered',
      ratio(of.deliveredRatio),
      html`of messages that ended in ${over}`,
      isMissed ? html`<span class="state warning"><span>below the ${objective}</span></span>` : objective,
    ),
    tile(
      'Messages delivered',
      count(of.delivered),
      html`${count(of.failed)} failed`,
      html`${count(of.cancelled)} cancelled`,
      of.redelivered !== null && of.redelivered > 0 && html`${count(of.redelivered)} redelivered`,
    ),
    timeToDeliver(of),
    tile(
      'Became overdue',
      count(of.overdue),
      html`not delivered within ${lasting(objectives.onTimeWithinSeconds)}`,
      html`objective ${ratio(objectives.onTime)} on time`,
    ),
  ];
}

function numbers(of: Events, now: ServiceNow): Html {
  const states = Object.entries(of.recent ?? {});
  const recent = states.map(
    ([state, number]) => html`<span>${state.replaceAll('_', ' ')} <b>${count(number)}</b></span> `,
  );
  return html`<div class="panel">${tiles(
    ...lastHour(of),
    tile('In flight', count(of.inFlight), of.oldestInFlight !== null && html`oldest: ${ago(of.oldestInFlight, now)}`),
    tile('Newest event', ago(of.newest, now)),
  )}
${states.length > 0 && html`<p class="counts"><span class="soft">Events of the last ${lasting(of.windowSeconds)}:</span> ${recent}</p>`}</div>`;
}

const DESTINATIONS: readonly Column<Events['destinations'][number]>[] = [
  { head: 'destination', cell: row => name(row.destination) },
  { head: 'failed', isNumber: true, cell: row => count(row.failed) },
  { head: 'delivered', isNumber: true, cell: row => count(row.delivered) },
  { head: 'cancelled', isNumber: true, cell: row => count(row.cancelled) },
  {
    head: 'delivered share',
    isNumber: true,
    cell: ({ failed, delivered, cancelled }) => {
      const ended = failed + delivered + cancelled;
      return ended > 0 ? percent(delivered / ended) : '—';
    },
  },
];

const OUTCOMES: Chart = {
  kind: 'stack',
  lines: [
    line('delivery_messages_finished_total', 'delivered', 'calm', { outcome: 'delivered' }),
    line('delivery_messages_finished_total', 'failed', 'bad', { outcome: 'failed' }),
    line('delivery_messages_finished_total', 'cancelled', 'muted', { outcome: 'cancelled' }),
  ],
};
const TIME_TO_DELIVER: Chart = {
  kind: 'quantile',
  lines: [{ family: 'delivery_message_time_to_deliver_seconds_bucket' }],
};
const IN_FLIGHT: Chart = { kind: 'level', lines: [line('delivery_messages_in_flight', 'messages', 'calm')] };
const OVERDUE: Chart = { kind: 'stack', lines: [line('delivery_messages_overdue_total', 'messages', 'odd')] };

export function eventsSection(view: AccountView, { root }: PageContext): Html {
  const { events: of } = view;
  const path = `${root}${accountPath(view.account)}/events`;
  const body = html`${dataNote(of.data, 'events', view)}
${numbers(of, serviceNowOf(view))}
<div class="grid" id="event-charts">${figure('outcomes', 'Messages that ended', OUTCOMES)}${figure('time-to-deliver', 'Time to deliver', TIME_TO_DELIVER)}</div>
<div class="grid" id="flight-charts">${figure('in-flight', 'In flight', IN_FLIGHT)}${figure('overdue', 'Became overdue', OVERDUE)}</div>
<p><a href="${path}">Newest events</a> · <a href="${path}?state=FAILED">Newest failed messages</a></p>
${table('Destinations, since the first start', DESTINATIONS, of.destinations, { most: 10 })}`;
  const none = notEnabled('The event log is not read', 'collect.events.enabled');
  return section('events', 'Events', of.enabled ? body : none);
}
