import type { ReloadError } from '../../http/served.ts';
import { type AccountRow, type Overview, OverviewQuery } from '../api/overview.ts';
import { ACCOUNT_STATES } from '../api/parts.ts';
import { ago, change, count, grouped, plural, ratio, span, things } from './format.ts';
import { Html, html } from './html.ts';
import { layout, type PageContext } from './layout.ts';
import {
  accountLink,
  alertLists,
  dataTag,
  errorList,
  kindTag,
  named,
  problemList,
  STATE_WORDS,
  shownState,
  stateMark,
  verdict,
} from './problems.ts';

const isAlarmed = ({ alerts }: Overview) => alerts.some(({ labels }) => labels.severity !== 'info');

/** Returns the number of accounts that are down. An account can be down before its data is stale enough to be a problem. */
const downOf = ({ accounts: { total, up } }: Overview) => total - up;

export function verdictOf(view: Overview): string {
  const { state, problems, problemsTotal, alertsFiring, accounts } = view;
  const { total, byState } = accounts;
  if (state === 'unknown') {
    return byState.unknown === total ? 'No data yet' : `No data yet from ${plural(byState.unknown, 'account')}`;
  }
  if (state === 'ok' && !isAlarmed(view)) {
    const down = downOf(view);
    return down > 0 ? `${plural(down, 'account')} not up` : 'All right';
  }
  if (state === 'ok' || problemsTotal === 0) return `${plural(alertsFiring, 'alert')} firing`;
  const critical = problems.filter(({ severity }) => severity === 'critical').length;
  const most = problems.length < problemsTotal && critical === problems.length ? 'at least ' : '';
  return `${plural(problemsTotal, 'problem')}${critical > 0 ? `, ${most}${critical} critical` : ''}`;
}

function head(view: Overview): Html {
  const { accounts, deadLetters, alertsFiring } = view;
  const state = view.state === 'ok' && (isAlarmed(view) || downOf(view) > 0) ? 'warning' : view.state;
  return verdict(
    shownState(state, view.alerts),
    html`${verdictOf(view)}`,
    html`${count(accounts.up)} of ${things(accounts.total, 'account')} up · ${things(deadLetters, 'dead letter')} · ${plural(alertsFiring, 'alert')} firing`,
  );
}

const rest = (shown: number, total: number, what: string) =>
  shown < total ? html`<p class="soft">The first ${grouped(shown)} of ${plural(total, what)}.</p>\n` : html``;

function troubles(view: Overview, context: PageContext, faults: readonly ReloadError[]): Html {
  const { problems, problemsTotal, alerts, alertsFiring } = view;
  return html`${problems.length > 0 && html`<h2>${problems[0]?.severity === 'info' ? 'Worth knowing' : 'Problems'}</h2>\n${problemList(problems, context)}\n${rest(problems.length, problemsTotal, 'problem')}`}
${faults.length > 0 && html`<h2>The last reload failed; the previous configuration stays active</h2>\n${errorList(faults)}`}
${alertLists('Firing alerts', view, context, rest(alerts.length, alertsFiring, 'alert'))}`;
}

/** Returns a link to a page of the query. Omits default values. */
function hrefOf(query: OverviewQuery, page: number): string {
  const usual: Readonly<Record<string, unknown>> = OverviewQuery.parse({});
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries({ ...query, page })) {
    if (value !== usual[name]) parts.set(name, String(value));
  }
  return parts.size === 0 ? './' : `?${parts}`;
}

const choice = (value: string, word: string, chosen: string) =>
  html`<option value="${value}"${value === chosen ? new Html(' selected') : ''}>${word}</option>`;

/** Renders the search form, which works without scripts. With scripts, the page searches while the user types. */
function filter({ q, state, per }: OverviewQuery, { byState }: Overview['accounts']): Html {
  const states = ACCOUNT_STATES.map(each => choice(each, `${STATE_WORDS[each]} (${byState[each]})`, state));
  return html`<form class="filter" method="get" action="./" role="search" aria-label="Accounts" data-search data-keep>
<label class="field long">Search <input type="search" name="q" value="${q}" maxlength="200" placeholder="part of a name or label" autocomplete="off" spellcheck="false"></label>
<label class="field">State <select name="state">${choice('any', 'any', state)}${states}</select></label>
${per === 100 ? '' : html`<input type="hidden" name="per" value="${per}">`}<button>Show</button>
</form>
`;
}

const headCell = (word: string, look = '') => html`<th role="columnheader" scope="col" class="${look}">${word}</th>`;

const TABLE_HEAD = html`<thead role="rowgroup"><tr role="row">${[
  headCell('State'),
  headCell('Account'),
  ...['Dead letters', 'Oldest', 'Delivered, last hour', 'Waiting', 'Data as of'].map(word => headCell(word, 'num')),
]}</tr></thead>`;

function delivered(row: AccountRow): Html {
  if (row.finished === null) return ratio(row.delivered);
  if (row.finished.by === 0) return html`<span class="soft">none ended</span>`;
  const isShort = row.finished.overSeconds < 3480;
  return html`${ratio(row.delivered)} <small>of ${count(row.finished.by)}${isShort && html` in ${span(row.finished.overSeconds)}`}</small>`;
}

function accountRow(row: AccountRow, context: PageContext): Html {
  const { now } = context;
  const ahead = 1000 * (row.serviceAheadSeconds ?? 0);
  const labels = Object.entries(row.labels).map(([name, value]) => `${name}=${value}`);
  const others = row.problems - 1;
  const worst =
    row.worst &&
    html`<small class="${row.worst.severity}">${kindTag(row.worst.kind)}${others > 0 && html` and ${plural(others, 'other')}`}</small>`;
  const shown = row.deadLettersChange !== null && row.deadLettersChange.by !== 0;
  return html`<tr role="row" data-key="${row.account}">
<td role="cell" class="corner">${stateMark(row.state)}</td>
<th role="rowheader" scope="row" class="full">${accountLink(row.account, context)}${labels.length > 0 && html` <small>${named(labels.join(' '))}</small>`}${worst}</th>
<td role="cell" class="num" data-label="Dead letters">${count(row.deadLetters)}${shown && html` <small>${change(row.deadLettersChange)}</small>`}</td>
<td role="cell" class="num" data-label="Oldest">${row.deadLetters === 0 ? html`<span class="soft">none</span>` : ago(row.oldestEntered, { now: now + ahead, ahead })}</td>
<td role="cell" class="num" data-label="Delivered, 1 h">${delivered(row)}</td>
<td role="cell" class="num" data-label="Waiting">${count(row.waiting)}</td>
<td role="cell" class="num" data-label="Data as of">${dataTag(row.data)} <small>${ago(row.dataAt, now)}</small></td>
</tr>
`;
}

function pager({ matching, page, pages, rows }: Overview, query: OverviewQuery): Html {
  const first = (page - 1) * query.per;
  const step = (to: number, word: string, rel: string) =>
    to >= 1 && to <= pages && html` <a rel="${rel}" href="${hrefOf(query, to)}">${word}</a>`;
  return html`<div class="pager"><p>${grouped(first + 1)} to ${grouped(first + rows.length)} of ${plural(matching, 'account')}</p>
<nav aria-label="Pages of accounts">${step(page - 1, 'Previous', 'prev')}${step(page + 1, 'Next', 'next')}</nav></div>
`;
}

function accounts(view: Overview, query: OverviewQuery, context: PageContext): Html {
  const { rows, matching, accounts, pages } = view;
  if (matching === 0 || rows.length === 0)
    return html`<p class="panel">No matching account. <a href="./">Show all</a></p>`;
  return html`<div class="wide"><table role="table" class="cards"><caption class="hidden">Accounts, worst first</caption>
${TABLE_HEAD}
<tbody role="rowgroup">
${rows.map(row => accountRow(row, context))}</tbody></table></div>
${(pages > 1 || matching < accounts.total) && pager(view, query)}`;
}

export function overviewPage(
  view: Overview,
  query: OverviewQuery,
  faults: readonly ReloadError[],
  context: PageContext,
): Html {
  const several = view.accounts.total > 1;
  const body = html`<section id="state" data-live aria-label="State">
${head(view)}${troubles(view, context, faults)}
</section>
<h2 id="accounts-head">${several ? 'Accounts' : 'Account'}</h2>
${several && filter(query, view.accounts)}<section id="accounts" data-live aria-labelledby="accounts-head">
${accounts(view, query, context)}
</section>`;
  return layout({ title: verdictOf(view), context, nav: 'overview', body });
}
