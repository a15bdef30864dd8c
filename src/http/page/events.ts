import type { AccountView } from '../api/account.ts';
import { figure } from './charts.ts';
import { dataNote, notEnabled } from './data-state.ts';
import { ago, count, lasting, percent, ratio } from './format.ts';
import { type Html, html } from './html.ts';
import type { PageContext } from './layout.ts';
import { name, section, table, tile, tiles } from './tile.ts';

type Events = AccountView['events'];

const P = 'events';

/** The last hour, against what the user has set. */
function lastHour({ lastHour, objectives }: Events): Html {
  const objective = html`objective ${ratio(objectives.delivered, `${P}.objectives.delivered`)}`;
  if (lastHour === null) {
    return tiles(tile('Delivered in the last hour', name(null), 'not known yet', objective));
  }
  const path = `${P}.lastHour`;
  const { delivered, failed, cancelled, deliveredRatio } = lastHour;
  const isMissed = deliveredRatio !== null && deliveredRatio < objectives.delivered;
  const over = lasting(lastHour.overSeconds, `${path}.overSeconds`);
  return tiles(
    tile(
      'Delivered',
      html`${ratio(deliveredRatio, `${path}.deliveredRatio`)}`,
      html`of what ended in the last ${over}`,
      isMissed ? html`<span class="state warning">below the ${objective}</span>` : objective,
    ),
    tile('Messages delivered', count(delivered, `${path}.delivered`), html`in ${over}`),
    tile('Failed', count(failed, `${path}.failed`), html`in ${over}`),
    tile('Cancelled', count(cancelled, `${path}.cancelled`), html`in ${over}`),
    tile(
      'Overdue',
      count(lastHour.overdue, `${path}.overdue`),
      html`in ${over}: not delivered within ${lasting(objectives.onTimeWithinSeconds, `${P}.objectives.onTimeWithinSeconds`)}`,
      html`objective ${ratio(objectives.onTime, `${P}.objectives.onTime`)} on time`,
    ),
  );
}

function timeToDeliver({ lastHour }: Events): Html {
  if (lastHour === null) return html``;
  return html`<h3>Time to deliver, in the last hour</h3>${tiles(
    ...lastHour.timeToDeliver.map(({ quantile, atMostSeconds }, index) => {
      const path = `${P}.lastHour.timeToDeliver.${index}`;
      return tile(
        html`<data value="${quantile}" data-path="${path}.quantile">p${quantile * 100}</data>`,
        html`${atMostSeconds !== null && '≤ '}${lasting(atMostSeconds, `${path}.atMostSeconds`)}`,
      );
    }),
  )}`;
}

function now_({ inFlight, oldestInFlight, newest, recent, windowSeconds }: Events, now: number): Html {
  const states = Object.entries(recent ?? {});
  return html`<h3>Now</h3>${tiles(
    tile(
      'In flight',
      count(inFlight, `${P}.inFlight`),
      html`oldest: ${ago(oldestInFlight, `${P}.oldestInFlight`, now)}`,
    ),
    tile('Newest event', ago(newest, `${P}.newest`, now)),
  )}
<h3>Events of the last ${lasting(windowSeconds, `${P}.windowSeconds`)}</h3>${
    states.length === 0
      ? html`<p class="soft">Not known.</p>`
      : tiles(
          ...states.map(([state, number]) => tile(state.replaceAll('_', ' '), count(number, `${P}.recent.${state}`))),
        )
  }`;
}

function destinations({ destinations }: Events): Html {
  if (destinations.length === 0) return html``;
  const path = (index: number) => `${P}.destinations.${index}`;
  return table(
    'Destinations, since the first start',
    [
      { head: 'destination', cell: row => name(row.destination) },
      { head: 'failed', isNumber: true, cell: (row, index) => count(row.failed, `${path(index)}.failed`) },
      { head: 'delivered', isNumber: true, cell: (row, index) => count(row.delivered, `${path(index)}.delivered`) },
      { head: 'cancelled', isNumber: true, cell: (row, index) => count(row.cancelled, `${path(index)}.cancelled`) },
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
    10,
  );
}

const CLASSES: Readonly<Record<string, string>> = { none: 'no answer' };

function attempts({ attempts }: Events): Html {
  if (attempts.length === 0) return html``;
  return table(
    'Attempts, since the first start',
    [
      { head: 'result', cell: row => row.result.replaceAll('_', ' ') },
      { head: 'status', cell: row => CLASSES[row.statusClass] ?? row.statusClass },
      { head: 'attempts', isNumber: true, cell: (row, index) => count(row.count, `${P}.attempts.${index}.count`) },
    ],
    attempts,
    10,
  );
}

/** What was counted since the first start: of states, outcomes, and of what the log did to the agent. */
function totals(of: Events, now: number): Html {
  const counted = (record: Readonly<Record<string, number>>, path: string) =>
    Object.entries(record).map(
      ([key, number]) => html`<dt>${key.replaceAll('_', ' ')}</dt><dd>${count(number, `${P}.${path}.${key}`)}</dd>`,
    );
  return html`<details id="event-totals"><summary>Since the first start</summary>
<p class="soft">The event log was read without a gap since ${ago(of.since, `${P}.since`, now)}.</p>
<div class="grid"><div><h3>Messages ended</h3><dl class="facts">${counted(of.finished, 'finished')}<dt>overdue</dt><dd>${count(of.overdue, `${P}.overdue`)}</dd></dl></div>
<div><h3>Events</h3><dl class="facts">${counted(of.total, 'total')}</dl></div>
<div><h3>The log</h3><dl class="facts"><dt>gaps</dt><dd>${count(of.gaps, `${P}.gaps`)}</dd><dt>late events</dt><dd>${count(of.late, `${P}.late`)}</dd><dt>duplicates</dt><dd>${count(of.duplicates, `${P}.duplicates`)}</dd></dl></div></div>
</details>`;
}

/** What became of an account's messages, by its event log. */
export function events(view: AccountView, { root }: PageContext): Html {
  const { events: of } = view;
  const now = Date.parse(view.now);
  if (!of.enabled)
    return section('events', 'Events', notEnabled('The event log is not read', 'collect.events.enabled'));
  return section(
    'events',
    'Events',
    html`${dataNote(of, 'events', view, root)}
<div class="panel">${lastHour(of)}${timeToDeliver(of)}${now_(of, now)}</div>
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
${destinations(of)}
${attempts(of)}
${totals(of, now)}`,
  );
}
