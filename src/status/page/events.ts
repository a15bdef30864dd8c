import type { AccountView, AnyAccountView, ReducedAccountView } from '../api/account.ts';
import { figure } from './charts.ts';
import { dataNote, notEnabled } from './data-state.ts';
import { ago, count, grouped, lasting, percent, ratio, span } from './format.ts';
import { type Html, html } from './html.ts';
import type { PageContext } from './layout.ts';
import { name, section, table, tile, tiles } from './tile.ts';

type Events = AccountView['events'];

/** Upper bound of the bucket of a quantile: `≤ 5 s`. */
function bound(of: NonNullable<Events['lastHour']>['timeToDeliver'][number], delivered: number): Html {
  const words =
    of.atMostSeconds !== null ? '≤ ' : delivered > 0 && html`<span class="soft">longer than measured</span>`;
  return html`${words}${(of.atMostSeconds !== null || delivered === 0) && lasting(of.atMostSeconds)}`;
}

function timeToDeliver({ timeToDeliver: of, delivered }: NonNullable<Events['lastHour']>): Html | false {
  const main = of.at(-1);
  if (main === undefined) return false;
  const word = (quantile: number) => html`<data value="${quantile}">p${grouped(quantile * 100)}</data>`;
  return tile(
    html`Time to deliver, ${word(main.quantile)}`,
    bound(main, delivered),
    ...of.slice(0, -1).map(each => html`${word(each.quantile)} ${bound(each, delivered)}`),
  );
}

/** The last hour compared with the objectives. */
function lastHour({ lastHour: of, objectives }: Events): readonly (Html | false)[] {
  const objective = html`objective ${ratio(objectives.delivered)}`;
  if (of === null) return [tile('Delivered in the last hour', name(null), 'not known', objective)];
  const isMissed = of.deliveredRatio !== null && of.deliveredRatio < objectives.delivered;
  const over = span(of.overSeconds);
  return [
    tile(
      'Delivered',
      ratio(of.deliveredRatio),
      html`of what ended in ${over}`,
      isMissed ? html`<span class="state warning"><span>below the ${objective}</span></span>` : objective,
    ),
    tile(
      'Messages delivered',
      count(of.delivered),
      html`${count(of.failed)} failed`,
      html`${count(of.cancelled)} cancelled`,
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

function numbers(of: Events, now: number): Html {
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

/** Numbers of the overview. */
const summary = ({ inFlight, lastHour }: ReducedAccountView['events']): Html =>
  html`<div class="panel">${tiles(
    tile(
      'Delivered',
      ratio(lastHour?.deliveredRatio ?? null),
      lastHour !== null && html`of ${count(lastHour.finished)} that ended in ${span(lastHour.overSeconds)}`,
    ),
    tile('In flight', count(inFlight)),
  )}</div>`;

function destinations({ destinations }: Events): Html {
  if (destinations.length === 0) return html``;
  return table(
    'Destinations, since the first start',
    [
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
    ],
    destinations,
    { most: 10 },
  );
}

const CLASSES: Readonly<Record<string, string>> = { none: 'no answer' };

function attempts(of: Events): Html {
  const attempts = of.attempts.filter(row => row.count > 0);
  if (attempts.length === 0) return html``;
  return table(
    'Attempts, since the first start',
    [
      { head: 'result', cell: row => row.result.replaceAll('_', ' ') },
      { head: 'status', cell: row => CLASSES[row.statusClass] ?? row.statusClass },
      { head: 'attempts', isNumber: true, cell: row => count(row.count) },
    ],
    attempts,
    { most: 10 },
  );
}

/** Counters of outcomes, events and anomalies of the log since the first start. */
function totals(of: Events, now: number): Html {
  const counted = (record: Readonly<Record<string, number>>) =>
    Object.entries(record).map(([key, number]) => html`<dt>${key.replaceAll('_', ' ')}</dt><dd>${count(number)}</dd>`);
  return html`<details id="event-totals"><summary>All counters since the first start</summary>
<p class="soft">The event log was read without a gap since ${ago(of.since, now)}.</p>
<div class="grid"><div><h3>Messages ended</h3><dl class="facts">${counted(of.finished)}<dt>overdue</dt><dd>${count(of.overdue)}</dd></dl></div>
<div><h3>Events</h3><dl class="facts">${counted(of.total)}</dl></div>
<div><h3>The log</h3><dl class="facts"><dt>gaps</dt><dd>${count(of.gaps)}</dd><dt>late events</dt><dd>${count(of.late)}</dd><dt>duplicates</dt><dd>${count(of.duplicates)}</dd></dl></div></div>
</details>`;
}

export function events(view: AnyAccountView, { root }: PageContext): Html {
  const { events: of } = view;
  const now = Date.parse(view.now);
  if (!of.enabled)
    return section('events', 'Events', notEnabled('The event log is not read', 'collect.events.enabled'));
  return section(
    'events',
    'Events',
    html`${dataNote(of.data, 'events', view, root)}
${view.complete ? numbers(view.events, now) : summary(view.events)}
<div class="grid" id="event-charts">${figure({
      id: 'outcomes',
      title: 'Messages that ended',
      kind: 'stack',
      lines: [
        {
          family: 'delivery_messages_finished_total',
          where: { outcome: 'delivered' },
          name: 'delivered',
          look: 'calm',
        },
        { family: 'delivery_messages_finished_total', where: { outcome: 'failed' }, name: 'failed', look: 'bad' },
        {
          family: 'delivery_messages_finished_total',
          where: { outcome: 'cancelled' },
          name: 'cancelled',
          look: 'muted',
        },
      ],
    })}${figure({
      id: 'time-to-deliver',
      title: 'Time to deliver',
      kind: 'quantile',
      unit: 'seconds',
      quantiles: [0.5, 0.9, 0.99],
      lines: [{ family: 'delivery_message_time_to_deliver_seconds_bucket' }],
    })}</div>
<div class="grid" id="flight-charts">${figure({
      id: 'in-flight',
      title: 'In flight',
      kind: 'level',
      lines: [{ family: 'delivery_messages_in_flight', name: 'messages', look: 'calm' }],
    })}${figure({
      id: 'overdue',
      title: 'Became overdue',
      kind: 'stack',
      lines: [{ family: 'delivery_messages_overdue_total', name: 'messages', look: 'odd' }],
    })}</div>
${
  view.complete &&
  html`<div class="grid tables">${destinations(view.events)}${attempts(view.events)}</div>
${totals(view.events, now)}`
}`,
  );
}
