import type { AutoCancelView, Candidate } from '../api/auto-cancel.ts';
import { ago, at, count, plural } from './format.ts';
import { type Html, html } from './html.ts';
import type { PageContext } from './layout.ts';
import { accountLink, named } from './problems.ts';
import { type Column, name, section, table } from './tile.ts';

type Finding = Candidate['findings'][number];
type Predicate = Finding['predicates'][number];

const HOLDS = { true: ['ok', 'yes'], false: ['critical', 'no'], unknown: ['unknown', 'unknown'] } as const;

const VERDICTS: Readonly<Record<Finding['verdict'], readonly [look: string, words: string]>> = {
  stuck: ['warning', 'stuck'],
  not_stuck: ['ok', 'not stuck'],
  unknown: ['unknown', 'unknown'],
  no_match: ['unknown', 'no rule'],
};

const COLUMNS: readonly Column<Predicate>[] = [
  { head: 'predicate', cell: row => html`<span class="mono">${named(row.name)}</span>` },
  {
    head: 'holds',
    cell: ({ holds }) => {
      const [look, word] = HOLDS[`${holds}`];
      return html`<span class="state ${look}">${word}</span>`;
    },
  },
  { head: 'found', isWide: true, cell: row => named(row.found) },
  { head: 'asked', isWide: true, cell: row => named(row.asked) },
];

function finding({ rule, verdict, reason, predicates }: Finding, place: number, mode: string | undefined): Html {
  const [look, word] = VERDICTS[verdict];
  const which = place === 0 && mode !== undefined ? `mode ${mode}` : 'shadowed by the rule above';
  return html`<p>Rule <b>${named(rule)}</b> (${which}): <span class="state ${look}">${word}</span>${reason !== verdict && html`, reason: <code>${named(reason)}</code>`}</p>
${table('Conditions of the rule and actual values', COLUMNS, predicates, { most: 50 })}`;
}

export const commandLine = (command: string): Html =>
  html`<p><code class="line">delivery-watch auto-cancel ${command} --config FILE</code></p>`;

function facts(of: Candidate, now: number): Html {
  const { account, dlqId, messageId, url, workflowUrl, owner, action } = of;
  const seen = html`${at(of.firstSeenAt, now)}, ${ago(of.firstSeenAt, now)}`;
  const rows: readonly (readonly [string, Html])[] = [
    ['account', named(account)],
    ['entry', html`<span class="mono">${name(dlqId)}</span>`],
    ['message', html`<span class="mono">${name(messageId)}</span>`],
    ['address', name(url)],
    ['workflow', name(workflowUrl)],
    ['rule', owner === null ? html`none` : html`${named(owner.rule)} (${owner.mode})`],
    ['first seen', html`${seen}; in ${count(of.snapshots)} complete walks since`],
    ['last seen', ago(of.lastSeenAt, now)],
    ['action', html`<span class="mono">${name(action)}</span>`],
  ];
  return html`<dl class="facts">${rows.map(([what, value]) => html`<dt>${what}</dt><dd>${value}</dd>`)}</dl>`;
}

function candidate(of: Candidate, index: number, now: number, context: PageContext): Html {
  const { findings, held, heldText, attempts, outcome, action, owner, mayApprove } = of;
  const [first] = findings;
  const [look, word] = VERDICTS[first?.verdict ?? 'no_match'];
  const id = of.dlqId ?? of.messageId;
  const key = `${of.account} ${id ?? index}`;
  return html`<li class="item ${look === 'warning' ? look : 'unknown'}" data-key="${key}">
<span class="state ${look}">${word}</span>
<div><p class="item-head">${accountLink(of.account, context)}<span class="mono">${name(id)}</span>${owner !== null && html`<span class="tag plain">${owner.mode}</span>`}</p>
<p class="soft">${name(of.url)} · first seen ${ago(of.firstSeenAt, now)}${first && first.reason !== first.verdict && html` · reason: <code>${named(first.reason)}</code>`}</p>
${held !== null && html`<p>${heldText ?? 'Not cancelled now:'} <code class="soft">${held}</code></p>`}
${attempts > 0 && html`<p>${count(attempts)} attempted; ${outcome === null ? 'no final outcome yet' : `outcome: ${outcome}`}.</p>`}
${mayApprove && action !== null && commandLine(`approve ${action}`)}
<details data-key="${key}"><summary>Evidence</summary>
${facts(of, now)}
${findings.length === 0 ? html`<p>No rule matches it: it is never cancelled.</p>` : findings.map((each, place) => finding(each, place, owner?.mode))}
</details></div>
</li>
`;
}

/** Renders tracked failure callbacks with the evidence for each rule. */
export function candidates(view: AutoCancelView, context: PageContext): Html {
  const { candidates: shown } = view;
  const now = Date.parse(view.now);
  const rest =
    shown.length < view.tracked &&
    html`<p class="soft">The first ${shown.length} of ${plural(view.tracked, 'tracked callback')}.</p>`;
  const none = html`<p class="soft">No failure callback is tracked: none was in progress at the last complete walk.</p>`;
  const list = html`<ol class="items">
${shown.map((each, index) => candidate(each, index, now, context))}</ol>${rest}`;
  const body = shown.length === 0 ? none : list;
  return section('candidates', 'Candidates', body);
}
