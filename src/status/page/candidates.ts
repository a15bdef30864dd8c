import { isSaneId } from '../../upstream/api.ts';
import type { AutoCancelView, Candidate } from '../api/auto-cancel.ts';
import { ago, count, plural } from './format.ts';
import { type Html, html } from './html.ts';
import type { PageContext } from './layout.ts';
import { accountLink, named } from './problems.ts';
import { name, section } from './tile.ts';

const VERDICTS: Readonly<Record<Candidate['verdict'], readonly [look: string, words: string]>> = {
  stuck: ['warning', 'stuck'],
  not_stuck: ['ok', 'not stuck'],
  unknown: ['unknown', 'unknown'],
  no_match: ['unknown', 'no rule'],
};

export const commandLine = (command: string): Html =>
  html`<p><code class="line">delivery-watch auto-cancel ${command} --config FILE</code></p>`;

function candidate(of: Candidate, index: number, now: number, context: PageContext): Html {
  const { account, verdict, reason, held, heldText, attempts, outcome, action, owner, mayApprove } = of;
  const [look, word] = VERDICTS[verdict];
  const id = of.dlqId ?? of.messageId;
  return html`<li class="item ${look === 'warning' ? look : 'unknown'}" data-key="${account} ${id ?? index}">
<span class="state ${look}">${word}</span>
<div><p class="item-head">${accountLink(account, context)}<span class="mono">${name(id)}</span>${owner !== null && html`${named(owner.rule)}<span class="tag plain">${owner.mode}</span>`}</p>
<p class="soft">${name(of.url)} · first seen ${ago(of.firstSeenAt, now)}, last ${ago(of.lastSeenAt, now)}, in ${count(of.snapshots)} complete walks${reason !== null && reason !== verdict && html` · reason: <code>${named(reason)}</code>`}</p>
${held !== null && html`<p>${heldText ?? 'Not cancelled now:'} <code class="soft">${held}</code></p>`}
${attempts > 0 && html`<p>${count(attempts)} attempted; ${outcome === null ? 'no final outcome yet' : `outcome: ${outcome}`}.</p>`}
${mayApprove && action !== null && commandLine(`approve ${action}`)}
${id !== null && isSaneId(id) && commandLine(`explain ${id} --account ${account}`)}</div>
</li>
`;
}

/** Renders tracked failure callbacks. */
export function candidates(view: AutoCancelView, context: PageContext): Html {
  const { candidates: shown } = view;
  const now = Date.parse(view.now);
  const rest =
    shown.length < view.tracked &&
    html`<p class="soft">The first ${shown.length} of ${plural(view.tracked, 'tracked callback')}.</p>`;
  const none = html`<p class="soft">No failure callback is tracked: none was in progress at the last complete walk.</p>`;
  const list = html`<ol class="items">
${shown.map((each, index) => candidate(each, index, now, context))}</ol>${rest}`;
  return section('candidates', 'Candidates', shown.length === 0 ? none : list);
}
