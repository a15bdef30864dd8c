import { recordOf } from '../../kit/record.ts';
import { describeMessage, describeQuality, describeStep, MESSAGE_FIELDS, utcText } from '../../lookup/message.ts';
import type { AccountView } from '../api/account.ts';
import type { DlqLookup, EventLookup, MessageLookup } from '../api/lookup.ts';
import { RequestError } from '../lookups.ts';
import { duration } from './assets/age.js';
import { dimensionWords, entries, labelValue, origin, status, statusValue } from './dead-letters.ts';
import { ago, serviceNowOf, things } from './format.ts';
import { type Html, html } from './html.ts';
import { entriesPath, layout, type PageContext } from './layout.ts';
import { accountLink, messageLink, named, verdict } from './problems.ts';
import { type Column, capital, name, table } from './tile.ts';

/** Pages of look-ups. They have no live sections, because each update would be another look-up. */

/** The result or error of a look-up, with the current view of the account. */
export interface LookupResult<T> {
  readonly found: T | RequestError;
  readonly view: AccountView;
}

export type ShownFilters = Readonly<Record<string, unknown>>;

/** Number of rows on a page. */
export const ROWS = 50;

const accountBack = (account: string, context: PageContext) => html`Account ${accountLink(account, context)}`;

function page(title: string, context: PageContext, links: readonly Html[], body: Html): Html {
  const back = html`<nav aria-label="Back">${links.map(link => html`<span>${link}</span> `)}</nav>`;
  return layout({ title, context, nav: 'overview', body: html`${back}\n${body}` });
}

function freshness({ found }: LookupResult<{ readonly now: string }>, { now }: PageContext): Html {
  if (!(found instanceof RequestError)) return html`read from the service ${ago(found.now, now)}`;
  return found.status === 404 ? html`not found` : html`not read from the service`;
}

function failureNote({ status: code, message, retryAfter }: RequestError): Html {
  const when = retryAfter !== undefined && ` Try again in ${duration(retryAfter)}.`;
  return html`<p class="note warning">The look-up failed with status ${code}: ${named(message)}.${when}</p>\n`;
}

function listPage<T extends DlqLookup | EventLookup>(
  shown: LookupResult<T>,
  context: PageContext,
  { title, heading, filters, none }: { title: string; heading: Html; filters: ShownFilters; none: string },
  rowsOf: (found: T) => Html,
): Html {
  const { found, view } = shown;
  const isFailed = found instanceof RequestError;
  const given = Object.entries(filters).map(
    ([what, value]) => html` · ${dimensionWords(what)} <b>${named(String(value))}</b>`,
  );
  const words = html`${freshness(shown, context)}${given}`;
  const more =
    !isFailed && found.rows.length > 0
      ? `More rows may exist: a look-up reads at most four pages, and shows ${ROWS} rows`
      : 'No row of the first four pages matches. Later rows may match';
  const notes = isFailed
    ? []
    : [
        ...(found.hasMore ? [more] : []),
        ...(found.mayMissNewer ? ['newer rows may be missing, because the service ignores the order'] : []),
        ...describeQuality(found.proven, found.rejected, found.incomplete),
      ];
  const rows =
    !isFailed && (found.rows.length > 0 ? rowsOf(found) : !found.hasMore && html`<p class="panel">${none}</p>`);
  const body = html`${verdict(isFailed ? 'warning' : 'unknown', heading, words)}
${isFailed && failureNote(found)}${notes.map(note => html`<p class="note">${capital(note)}.</p>\n`)}${rows}`;
  return page(title, context, [accountBack(view.account, context)], body);
}

export function entriesPage(shown: LookupResult<DlqLookup>, filters: ShownFilters, context: PageContext): Html {
  const { account, deadLetters } = shown.view;
  const { kind: id, ...others } = filters;
  const kind = deadLetters.kinds.largest.find(each => each.id === id);
  const about =
    kind &&
    html`<p class="note">${labelValue(kind.urlHost)} ${kind.route !== '' && labelValue(kind.route)} · status ${statusValue(kind.responseStatus)} · ${things(kind.messages, 'dead letter')} in the last complete walk (full scan of the queue)</p>`;
  const texts = {
    title: id === undefined ? 'Dead letters' : `Dead letters of kind ${id}`,
    heading: html`Dead letters${id !== undefined && html` of kind <span class="mono">${named(String(id))}</span>`}`,
    filters: others,
    none: 'No entries were found. They may have left the queue, or are workflow runs that the service lists separately.',
  };
  const place = { account, now: serviceNowOf(shown.view), root: context.root, most: ROWS };
  return listPage(shown, context, texts, ({ rows }) => html`${about}${entries('Newest entries', rows, place)}`);
}

const LOOKS = new Map([
  ['delivered', 'ok'],
  ['failed', 'critical'],
  ['error', 'warning'],
]);

const stateWord = (state: string) =>
  html`<span class="state ${LOOKS.get(state) ?? 'unknown'}">${state.replaceAll('_', ' ')}</span>`;

export function eventsPage(shown: LookupResult<EventLookup>, filters: ShownFilters, context: PageContext): Html {
  const { account } = shown.view;
  const columns: Column<EventLookup['rows'][number]>[] = [
    { head: 'message', cell: row => html`<span class="mono">${messageLink(account, row.messageId, context)}</span>` },
    { head: 'event', cell: row => stateWord(row.state) },
    { head: 'status', cell: row => status({ ...row, callbackState: null }) },
    { head: 'time', cell: row => ago(row.time, serviceNowOf(shown.view)) },
    { head: 'destination', isWide: true, cell: row => html`${name(row.url)}${origin(row)}` },
    { head: 'error', isWide: true, cell: row => name(row.error) },
  ];
  const heading = html`Newest events`;
  const texts = { title: 'Newest events', heading, filters, none: 'No events were found.' };
  return listPage(shown, context, texts, ({ rows }) => table('Events', columns, rows, { most: ROWS }));
}

type Steps = MessageLookup['events'];

function timeline(caption: string, steps: Steps): Html {
  const columns: Column<Steps[number]>[] = [
    { head: 'time (UTC)', cell: ({ time }) => html`<time datetime="${time}">${utcText(time)}</time>` },
    { head: 'after', cell: step => describeStep(step, steps).after },
    { head: 'event', cell: ({ state }) => stateWord(state) },
    { head: 'details', isWide: true, cell: step => describeStep(step, steps).details },
  ];
  return table(caption, columns, steps, { most: 100 });
}

type Property = string | number | readonly string[] | null | undefined;

function properties(values: Readonly<Record<string, Property>>): Html {
  const rows = Object.entries(values).map(([key, value]) => {
    const texts = [value ?? []].flat();
    return texts.length > 0 && html`<dt>${dimensionWords(key)}</dt><dd>${named(texts.join(', '))}</dd>`;
  });
  return html`<div class="panel"><dl class="facts">${rows}</dl></div>`;
}

/** Renders a message without the properties that `describeMessage` already describes. */
function messageBody(view: MessageLookup): Html {
  const { deadLetter, events } = view;
  const { dlqId, method, api, callerIp, failureCallbackUrl, maxRetries } = deadLetter ?? {};
  const fields = recordOf(MESSAGE_FIELDS, key => view[key]);
  return html`${timeline('Timeline', events)}
<h2>Properties</h2>
${properties({ ...fields, dlqId, method, api, callerIp, failureCallbackUrl, maxRetries })}`;
}

export function messagePage(shown: LookupResult<MessageLookup>, id: string, context: PageContext): Html {
  const { found, view } = shown;
  const { account } = view;
  const isFailed = found instanceof RequestError;
  const kind = isFailed ? undefined : found.deadLetter?.kind;
  const words = kind === undefined ? 'Newest dead letters' : 'Dead letters of the same kind';
  const links = [
    accountBack(account, context),
    html`<a href="${context.root + entriesPath(account, kind)}">${words}</a>`,
  ];
  const look = isFailed ? 'warning' : found.deadLetter ? 'critical' : (LOOKS.get(found.outcome ?? '') ?? 'unknown');
  const sentences = isFailed ? [] : describeMessage(found).map(sentence => html`<p>${named(sentence)}</p>\n`);
  const heading = html`Message <span class="mono">${named(id)}</span>`;
  const body = html`${verdict(look, heading, freshness(shown, context))}
${isFailed ? failureNote(found) : html`<div class="note">${sentences}</div>${messageBody(found)}`}`;
  return page(`Message ${id}`, context, links, body);
}
