import type { AnyAccountView } from '../api/account.ts';
import type { AgentView } from '../api/agent.ts';
import { ago, at, count, grouped, lasting, plural, utc } from './format.ts';
import { type Html, html } from './html.ts';
import { accountPath, type PageContext } from './layout.ts';
import { named } from './problems.ts';
import { type Column, name, section, table, tile, tilePanel } from './tile.ts';

type Replicas = NonNullable<AgentView['replicas']>;

/** Renders the host of a replica, as a link to one of its pages if browsers can reach it. */
export function replicaLink(url: string, publicUrl: string | null, path = ''): Html {
  const host = named(URL.parse(url)?.host || url);
  return publicUrl === null ? host : html`<a href="${publicUrl}/${path}" rel="noreferrer">${host}</a>`;
}

/** Warns of an unavailable database, on pages that do not show the agent's problems. */
export const databaseNote = ({ databaseAway }: PageContext): Html | false =>
  databaseAway !== undefined &&
  html`<p class="note critical"><span class="tag down">database unavailable</span> since ${utc(new Date(databaseAway).toISOString())}: counters are frozen, and auto-cancel is suspended. Accounts of other replicas show their last known state.</p>`;

export function heldNote(view: AnyAccountView, { now, replica: own }: PageContext): Html | false {
  if (own === undefined) return false;
  if (view.complete) return html`<p class="soft about">Collected by this replica.</p>`;
  const { account, replica, publicUrl, asOf, omitted } = view;
  const age = asOf === null ? html`its state is unknown` : html`the shown data is from ${ago(asOf, now)}`;
  if (replica === null) return html`<p class="note">No replica collects this account now: ${age}.</p>`;
  const more = Object.entries(omitted).flatMap(([what, number]) =>
    number > 0 ? [html`, ${count(number)} more ${what}`] : [],
  );
  return html`<p class="note">Collected by ${replicaLink(replica, publicUrl, accountPath(account))}: ${age}. That replica shows the details${more}.</p>`;
}

const listed = (names: readonly string[]) =>
  html`${names.slice(0, 5).map((each, index) => html`${index > 0 && ', '}${named(each)}`)}${names.length > 5 && ` and ${grouped(names.length - 5)} more`}`;

function moved({ lastHandOver: last }: Replicas): Html | false {
  if (!last) return false;
  const { gained, lost } = last;
  return html`${gained.length > 0 && html`gained ${listed(gained)}`}${gained.length > 0 && lost.length > 0 && '; '}${lost.length > 0 && html`lost ${listed(lost)}`}`;
}

export function replicas({ replicas: of, now }: AgentView): Html | false {
  if (of === null) return false;
  const clock = Date.parse(now);
  const columns: Column<Replicas['list'][number]>[] = [
    {
      head: 'replica',
      cell: ({ id, url, publicUrl }) =>
        html`${replicaLink(url, publicUrl, 'agent')}${id === of.self && html` <span class="tag plain">this one</span>`}`,
    },
    { head: 'id', cell: ({ id }) => html`<span class="mono">${name(id)}</span>` },
    { head: 'running since', cell: ({ since }) => ago(since, clock) },
    { head: 'accounts', isNumber: true, cell: ({ accounts }) => count(accounts) },
  ];
  const held = of.list.find(({ id }) => id === of.self)?.accounts;
  const all = Object.keys(of.holders).length + of.unheld.length;
  const body = html`${tilePanel(
    tile('Replicas', html`${grouped(of.list.length)}`, html`lease of ${lasting(of.leaseSeconds)}`),
    tile('Accounts here', html`${grouped(held ?? 0)}`, `of ${plural(all, 'account')}`),
    tile('Without a replica', html`${grouped(of.unheld.length)}`, of.unheld.length > 0 && listed(of.unheld)),
    tile(
      'Database',
      html`${of.databaseAway === null ? 'available' : 'unavailable'}`,
      of.databaseAway !== null && html`since ${at(of.databaseAway, clock)}`,
    ),
    tile(
      'Last handover',
      of.lastHandOver ? ago(of.lastHandOver.at, clock) : html`<span class="soft">none yet</span>`,
      moved(of),
    ),
  )}
${table('Running replicas', columns, of.list)}`;
  return section('replicas', 'Replicas', body);
}
