import type { ReloadError } from '../../http/served.ts';
import { CHECK_SEVERITIES, kindWords } from '../../model/check-kind.ts';
import { BUILTIN_ALERTS } from '../../rules/checks/alerts.ts';
import { isSaneId } from '../../upstream/api.ts';
import type { AlertView, DataState, Problem, State } from '../api/parts.ts';
import { ago, utc } from './format.ts';
import { Html, html } from './html.ts';
import { accountPath, entriesPath, type PageContext, runbookPath } from './layout.ts';

export const STATE_WORDS: Readonly<Record<State, string>> = {
  critical: 'critical',
  warning: 'warning',
  unknown: 'no data yet',
  ok: 'ok',
};

const tag = (word: string, look: string) => html`<span class="tag ${look}">${word}</span>`;

/** Returns the state of the first line: a critical alert keeps firing while its problem is unknown, and thus not listed. */
export const shownState = (state: State, alerts: readonly AlertView[]): State => {
  const isCritical = ({ state, labels, silencedBy }: AlertView) =>
    state === 'firing' && labels.severity === 'critical' && silencedBy === undefined;
  return state !== 'unknown' && alerts.some(isCritical) ? 'critical' : state;
};

export const stateMark = (state: State | Problem['severity'], word?: string) =>
  html`<span class="state ${state}">${word ?? (state === 'info' ? state : STATE_WORDS[state])}</span>`;

const DATA_TAGS: Readonly<Record<DataState, Html | undefined>> = {
  fresh: undefined,
  partial: tag('incomplete', 'partial'),
  stale: tag('stale', 'stale'),
  withdrawn: tag('withdrawn', 'withdrawn'),
  not_read: tag('not read yet', 'unread'),
};

export const dataTag = (state: DataState) => DATA_TAGS[state];

export const kindTag = (kind: Problem['kind']) => html`<span class="tag">${kindWords(kind)}</span>`;

/** Renders a user's text with its own writing direction. Hosts, paths and ids break after punctuation, not within a word. */
export const named = (text: string) =>
  html`<bdi class="name">${new Html(html`${text}`.text.replace(/(?<=[^\W_])[./:_]+(?=[^\W_])/g, '$&<wbr>'))}</bdi>`;

export const accountLink = (account: string, { root }: PageContext) =>
  html`<a href="${root + accountPath(account)}">${named(account)}</a>`;

/** Renders a message id. Adds a link to the page of the message if the page accepts the id. */
export const messageLink = (account: string, id: string, { root }: Pick<PageContext, 'root'>) =>
  isSaneId(id) ? html`<a href="${root + accountPath(account)}/messages/${id}">${named(id)}</a>` : named(id);

export const verdict = (look: string, sentence: Html, more: Html | string): Html =>
  html`<div class="verdict ${look}">
<h1 class="state ${look}" aria-live="polite"><span>${sentence}</span></h1>
<p>${more}</p>
</div>
`;

/** Warns of an unavailable database, on pages that do not show the agent's problems. */
export const databaseNote = ({ databaseAway }: PageContext): Html | false =>
  databaseAway !== undefined &&
  html`<p class="note critical"><span class="tag down">database unavailable</span> since ${utc(new Date(databaseAway).toISOString())}: counters are frozen, and auto-cancel is suspended.</p>`;

export function errorList(faults: readonly ReloadError[]): Html {
  const items = faults.map(({ file, line, column, message }) => {
    const place = [file, line, column].filter(part => part !== undefined).join(':');
    return html`<li class="item warning" data-key="${place} ${message}">${stateMark('warning', 'refused')}<p class="item-head mono">${named(place)}</p><p class="item-text">${named(message)}</p></li>\n`;
  });
  return html`<ul class="items">\n${items}</ul>\n`;
}

const more = (when: Html | '', runbook: Html | undefined) =>
  html`<div class="item-more">${when && html`<span>${when}</span>`}${runbook}</div>`;

export function problemList(problems: readonly Problem[], context: PageContext, withAccount = true): Html {
  const { root, now } = context;
  const place = (account: string | null) => (account === null ? 'the agent' : accountLink(account, context));
  const items = problems.map(({ account, kind, severity, subject, since, text, deadLetterKind, runbook }) => {
    const link =
      runbook === null
        ? undefined
        : html`<a href="${root + runbookPath(runbook)}">runbook<span class="hidden"> ${runbook}</span></a>`;
    const entries =
      account !== null &&
      deadLetterKind !== undefined &&
      html`<a href="${root + entriesPath(account, deadLetterKind)}">dead letters of this kind</a>`;
    return html`<li class="item ${severity}" data-key="${JSON.stringify([account, kind, subject])}">
${stateMark(severity)}
<p class="item-head">${withAccount ? place(account) : ''}${subject === null ? '' : named(subject)}${kindTag(kind)}</p>
<p class="item-text">${text}</p>
${more(since === null ? '' : html`began ${ago(since, now)}`, html`${entries}${link}`)}
</li>
`;
  });
  return html`<ol class="items">
${items}</ol>`;
}

/** Returns the URL if it is safe in a link. */
const webUrl = (text: string | undefined) => {
  const url = text === undefined ? null : URL.parse(text);
  return url?.protocol === 'http:' || url?.protocol === 'https:' ? url.href : undefined;
};

const silence = ({ silencedBy }: AlertView): Html | undefined =>
  silencedBy === undefined
    ? undefined
    : html`${tag('silenced', 'plain')} <span class="soft">${named(silencedBy)}</span>`;

const isBuiltin = ({ alertname = '' }: AlertView['labels']) => BUILTIN_ALERTS.has(alertname);

/** Returns alerts that no listed problem explains. */
function unlistedAlerts(alerts: readonly AlertView[], problems: readonly Problem[]): readonly AlertView[] {
  return alerts.filter(({ labels }) => {
    const { account = null, kind, subject = null } = labels;
    return !(
      isBuiltin(labels) &&
      problems.some(each => each.account === account && each.kind === kind && each.subject === subject)
    );
  });
}

function alertList(alerts: readonly AlertView[], context: PageContext, withAccount: boolean): Html {
  const items = alerts.map(alert => {
    const { labels, annotations, state, startsAt, endsAt } = alert;
    // A built-in alert that no problem explains is kept firing after its last finding.
    const isPast = state === 'resolved' || isBuiltin(labels);
    const { alertname = '', account, severity, ...others } = labels;
    const look = state === 'firing' ? (CHECK_SEVERITIES.find(each => each === severity) ?? 'warning') : 'info';
    const url = webUrl(annotations.runbook_url);
    const link = url === undefined ? undefined : html`<a href="${url}" rel="noreferrer">runbook</a>`;
    const of = Object.entries(others).map(
      ([name, value]) => html`<span class="mono soft">${name}=${named(value)}</span>`,
    );
    const text = annotations.summary ?? annotations.description;
    const [word, time] = state === 'resolved' ? ['ended', endsAt] : ['began', startsAt];
    const when = time && html`${word} ${ago(time, context.now)}`;
    return html`<li class="item ${look}" data-key="${JSON.stringify(Object.entries(labels))}">
${stateMark(look, state)}
<p class="item-head">${named(alertname)}${account !== undefined && withAccount ? accountLink(account, context) : ''}${of}${silence(alert)}</p>
<p class="item-text">${isPast && text !== undefined && 'Last report: '}${text}</p>
${more(when || '', link)}
</li>
`;
  });
  return html`<ol class="items">
${items}</ol>`;
}

/** Renders alerts that no listed problem explains, followed by `more`. */
export function alertLists(
  title: string,
  { alerts, problems }: { readonly alerts: readonly AlertView[]; readonly problems: readonly Problem[] },
  context: PageContext,
  more?: Html,
): Html {
  const others = unlistedAlerts(alerts, problems);
  return html`${others.length > 0 && html`<h2 id="alerts">${title}</h2>\n${alertList(others, context, more !== undefined)}\n${more}`}`;
}
