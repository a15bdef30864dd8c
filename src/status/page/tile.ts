import { remedyOf, serviceErrorIn } from '../../upstream/errors.ts';
import type { AccountView } from '../api/account.ts';
import type { DataState } from '../api/parts.ts';
import { ago, at } from './format.ts';
import { Html, html } from './html.ts';
import { dataTag, named } from './problems.ts';

type Content = Html | string | false | undefined;

export const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

export const tile = (what: string | Html, value: Html, ...more: readonly Content[]): Html =>
  html`<div class="tile"><dt>${typeof what === 'string' ? capital(what) : what}</dt><dd class="big">${value}</dd>${more.map(each => each && html`<dd class="soft">${each}</dd>`)}</div>`;

export const tiles = (...each: readonly (Html | false)[]): Html => html`<dl class="tiles">${each}</dl>`;

export const tilePanel = (...each: readonly (Html | false)[]): Html => html`<div class="panel">${tiles(...each)}</div>`;

export const section = (id: string, title: string, body: Html): Html =>
  html`<section id="${id}" data-live aria-labelledby="${id}-title"><h2 id="${id}-title">${title}</h2>
${body}</section>
`;

/** Renders `of / most` as a bar. `limit`: whether ratios above 80 % are marked as a warning. */
export function shareBar(of: number | null, most: number | null, label: string, limit = false): Html {
  if (of === null || most === null || most <= 0) return html``;
  const part = Math.min(1, Math.max(0, of / most)).toFixed(4);
  return html`<meter class="bar" min="0" max="1"${limit && new Html(' high="0.8" optimum="0"')} value="${part}" aria-label="${label}"></meter>`;
}

/** Renders a user's text; a dash for null. */
export const name = (text: string | null): Html => (text === null ? html`<span class="none">—</span>` : named(text));

export interface Column<Row> {
  /** Heading of the column, and label of the cell if the row is a card on a phone. */
  readonly head: string;
  readonly isNumber?: boolean;
  readonly isWide?: boolean;
  readonly cell: (row: Row) => Html | string;
}

const attribute = (name: string, value: string) => (value === '' ? '' : html` ${name}="${value}"`);

export function table<Row>(
  caption: string,
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  { most = 20, none = html`` }: { readonly most?: number; readonly none?: Html } = {},
): Html {
  if (rows.length === 0) return none;
  const look = ({ isNumber, isWide }: Column<Row>) => attribute('class', isNumber ? 'num' : isWide ? 'full' : '');
  const heads = columns.map(
    column =>
      html`<th role="columnheader" scope="col"${column.isNumber && attribute('class', 'num')}>${capital(column.head)}</th>`,
  );
  const cell = (row: Row) => (column: Column<Row>, place: number) =>
    place === 0
      ? html`<th role="rowheader" scope="row" class="full">${column.cell(row)}</th>`
      : html`<td role="cell" data-label="${capital(column.head)}"${look(column)}>${column.cell(row)}</td>`;
  const of = (caption: Html, rows: readonly Row[]) =>
    html`<div class="wide"><table role="table" class="cards">${caption}<thead role="rowgroup"><tr role="row">${heads}</tr></thead><tbody role="rowgroup">
${rows.map(row => html`<tr role="row">${columns.map(cell(row))}</tr>\n`)}</tbody></table></div>`;
  const first = of(html`<caption>${caption}</caption>`, rows.slice(0, most));
  if (rows.length <= most) return first;
  const more = `${rows.length - most} more`;
  const rest = of(html`<caption class="hidden">${caption}: ${more}</caption>`, rows.slice(most));
  return html`${first}<details id="more-${caption.toLowerCase().replace(/[^a-z]+/g, '-')}"><summary>${more}</summary>${rest}</details>`;
}

export type Round = AccountView['rounds'][number];

/** Renders the time of the next attempt, and the remedy for the failure. */
export function nextStep({ failure, retryAt }: Round, now: number): Html {
  const { reason = '', message = '' } = failure ?? {};
  const step = remedyOf({ reason, serviceError: serviceErrorIn(message) });
  return html`${retryAt !== null && html`Retried ${ago(retryAt, now)}. `}${step !== '' && `${capital(step)}.`}`;
}

const OLD: readonly Round['state'][] = ['withdrawn', 'stale', 'failing', 'partial', 'not_read'];

/** Returns the collector's round in the worst state, which explains the state of its data. */
function worstOf(rounds: readonly Round[], collector: string): Round | undefined {
  const own = rounds.filter(round => round.collector === collector);
  const place = ({ state }: Round) => (OLD.includes(state) ? OLD.indexOf(state) : OLD.length);
  const why = ({ failure }: Round) => (failure === null ? 1 : 0);
  return own.sort((one, other) => place(one) - place(other) || why(one) - why(other))[0];
}

const WORDS: Readonly<Record<Exclude<DataState, 'fresh'>, string>> = {
  partial: 'Some rows were unreadable: the data shown is correct but incomplete.',
  stale: 'The data is old: no later read has succeeded.',
  withdrawn: 'The last complete read is too old to be shown. A dash (—) means unknown.',
  not_read: 'Nothing has been read yet. A dash (—) means unknown.',
};

/** Explains why the numbers of a section are old or missing. */
export function dataNote(data: DataState, collector: string, view: AccountView): Html {
  if (data === 'fresh') return html``;
  const round = worstOf(view.rounds, collector);
  const now = Date.parse(view.now);
  const since = round?.dataAt && html` Last read at ${at(round.dataAt, now)}, ${ago(round.dataAt, now)}.`;
  const refused = view.calls?.tokenRejected === true && ' Cause: the service rejects the token.';
  const why = round?.failure ? html` Cause: ${name(round.failure.message)}. ${nextStep(round, now)}` : refused;
  const tone = data === 'withdrawn' ? 'critical' : 'warning';
  return html`<p class="note ${tone}">${dataTag(data)} ${WORDS[data]}${since}${why}</p>`;
}

export const notEnabled = (what: string, key: string): Html =>
  html`<p class="soft">${what}: <code>${key}</code> is false in the configuration.</p>`;
