import { isSaneId } from '../../upstream/api.ts';
import type { AutoCancelView, Candidate } from '../api/auto-cancel.ts';
import { sum } from '../values.ts';
import { ago, at, count, grouped, plural, things } from './format.ts';
import { type Html, html } from './html.ts';
import { layout, type PageContext } from './layout.ts';
import { accountLink, databaseNote, named, verdict } from './problems.ts';
import { type Column, name, section, table } from './tile.ts';

type Brakes = AutoCancelView['accounts'][number];

const VERDICTS: Readonly<Record<Candidate['verdict'], readonly [look: string, words: string]>> = {
  stuck: ['warning', 'stuck'],
  not_stuck: ['ok', 'not stuck'],
  unknown: ['unknown', 'unknown'],
  no_match: ['unknown', 'no rule'],
};

const commandLine = (command: string): Html =>
  html`<p><code class="line">delivery-watch auto-cancel ${command} --config FILE</code></p>`;

function candidate(of: Candidate, index: number, now: number, context: PageContext): Html {
  const { account, verdict, reason, held, heldText, attempts, outcome, action, owner, mayApprove } = of;
  const [look, word] = VERDICTS[verdict];
  const id = of.dlqId ?? of.messageId;
  return html`<li class="item ${look === 'warning' ? look : 'unknown'}" data-key="${account} ${id ?? index}">
<span class="state ${look}">${word}</span>
<div><p class="item-head">${accountLink(account, context)}<span class="mono">${name(id)}</span>${owner !== null && html`${named(owner.rule)}<span class="tag plain">${owner.mode}</span>`}</p>
<p class="soft">${name(of.url)} · first seen ${ago(of.firstSeenAt, now)}, last ${ago(of.lastSeenAt, now)}, in ${things(of.snapshots, 'complete walk')}${reason !== null && reason !== verdict && html` · reason: <code>${named(reason)}</code>`}</p>
${held !== null && html`<p>${heldText ?? 'Not cancelled now:'} <code class="soft">${held}</code></p>`}
${attempts > 0 && html`<p>${count(attempts)} attempted; ${outcome === null ? 'no final outcome yet' : `outcome: ${outcome}`}.</p>`}
${mayApprove && action !== null && commandLine(`approve ${action}`)}
${id !== null && isSaneId(id) && commandLine(`explain ${id} --account ${account}`)}</div>
</li>
`;
}

function candidates(view: AutoCancelView, context: PageContext): Html {
  const { candidates: shown } = view;
  const now = Date.parse(view.now);
  const rest =
    shown.length < view.tracked &&
    html`<p class="soft">The first ${shown.length} of ${plural(view.tracked, 'tracked callback')}.</p>`;
  const none = html`<p class="soft">No failure callback is tracked: none was in progress at the last complete walk.</p>`;
  const list = html`<ol class="items">
${shown.map((each, index) => candidate(each, index, now, context))}</ol>${rest}`;
  return section('candidates', 'Tracked callbacks', shown.length === 0 ? none : list);
}

/** Describes what auto-cancel may do now. */
function modeOf({ mode, rules, stopFile, accounts }: AutoCancelView): readonly [look: string, sentence: string] {
  if (mode === 'off') return ['unknown', 'Off: rules are not evaluated, and nothing is cancelled'];
  const open = accounts.filter(({ breakers }) => breakers.some(breaker => breaker.open)).length;
  if (open > 0) return ['critical', `A breaker is open in ${plural(open, 'account')}: cancels are suspended there`];
  if (stopFile.present) return ['warning', 'Stopped by the stop file: cancels are suspended'];
  const paused = accounts.filter(account => account.paused !== null).length;
  const somePaused = `Paused in ${plural(paused, 'account')}: cancels are suspended there`;
  if (paused > 0) return ['warning', paused === accounts.length ? 'Paused: cancels are suspended' : somePaused];
  const modes = new Set(rules.map(rule => rule.mode));
  if (mode === 'plan' || (!modes.has('enforce') && !modes.has('approve')))
    return ['ok', 'Plan mode: nothing is cancelled'];
  if (!modes.has('enforce')) return ['ok', 'Approval mode: nothing is cancelled without an operator'];
  return ['ok', 'Cancels callbacks that rules find stuck'];
}

function head(view: AutoCancelView): Html {
  const [look, sentence] = modeOf(view);
  const stuck = sum(view.accounts.map(({ candidates }) => candidates));
  const line = html`${grouped(stuck)} stuck · ${count(view.tracked)} tracked`;
  return html`${verdict(look, html`Auto-cancel — ${sentence}`, line)}${view.stopFile.present && html`<p class="note warning"><span class="tag open">stop file</span> Remove <code>${named(view.stopFile.path)}</code> to allow cancels again.</p>`}`;
}

function breakers({ breakers, wouldOpen }: Brakes, now: number): Html {
  const open = breakers.filter(breaker => breaker.open);
  if (open.length === 0 && wouldOpen !== null)
    return html`all closed; <span class="tag warning">candidates</span> would open if a rule could cancel: ${named(wouldOpen)}`;
  if (open.length === 0) return html`all closed`;
  return html`${open.map(
    ({ breaker, since, reason }) =>
      html`<span class="tag open">${breaker} open</span> since ${ago(since, now)}${reason !== null && html`: ${named(reason)}`}
<small>Once the cause is understood: <code>delivery-watch auto-cancel reset-breaker ${breaker} --reason TEXT --config FILE</code></small>`,
  )}`;
}

function brakes(view: AutoCancelView, context: PageContext): Html {
  const now = Date.parse(view.now);
  const columns: Column<Brakes>[] = [
    {
      head: 'account',
      cell: row => accountLink(row.account, context),
    },
    {
      head: 'pause',
      isWide: true,
      cell: ({ paused }) =>
        paused === null
          ? html`no`
          : html`<span class="tag warning">paused</span> by ${named(paused.by)} since ${at(paused.at, now)}, ${ago(paused.at, now)}: ${named(paused.reason)}`,
    },
    { head: 'breakers', isWide: true, cell: row => breakers(row, now) },
    { head: 'stuck', isNumber: true, cell: row => count(row.candidates) },
    { head: 'tracked', isNumber: true, cell: row => count(row.tracked) },
    { head: 'unresolved', isNumber: true, cell: row => count(row.unresolved) },
    { head: 'cancels left', isNumber: true, cell: row => count(row.budgetRemaining) },
  ];
  const isPaused = view.accounts.map(({ paused }) => paused !== null);
  const commands = [
    isPaused.includes(false) && commandLine('pause --reason TEXT'),
    isPaused.includes(true) && commandLine('resume --reason TEXT'),
  ];
  const none = html`<p class="soft">No account has auto-cancel.</p>`;
  const held = table('Pauses and breakers by account', columns, view.accounts, { most: 50, none });
  return section('brakes', 'Pauses and breakers', html`${held}${commands}`);
}

/** Returns the last day of a rule, which expires at the end of that day. */
const lastDay = (expires: string | null) =>
  expires === null ? '—' : new Date(Date.parse(expires) - 1).toISOString().slice(0, 10);

function rules({ rules }: AutoCancelView): Html {
  const columns: Column<AutoCancelView['rules'][number]>[] = [
    { head: 'rule', cell: row => name(row.name) },
    { head: 'mode', cell: row => html`<span class="tag plain">${row.mode}</span>` },
    { head: 'valid through', cell: row => lastDay(row.expires) },
    { head: 'stuck', isNumber: true, cell: row => count(row.candidates) },
    { head: 'cancels left this hour', isNumber: true, cell: row => count(row.budgetRemaining) },
  ];
  const none = html`<p class="soft">None is configured (<code>autoCancel.rules</code>).</p>`;
  const caption = 'In the configured order. The most cautious matching rule applies';
  return section('rules', 'Rules', table(caption, columns, rules, { most: 50, none }));
}

function journal({ journal, now }: AutoCancelView, context: PageContext): Html {
  const clock = Date.parse(now);
  const columns: Column<AutoCancelView['journal'][number]>[] = [
    { head: 'when', cell: row => html`${at(row.at, clock)}<small>${ago(row.at, clock)}</small>` },
    { head: 'account', cell: row => accountLink(row.account, context) },
    { head: 'step', cell: row => row.step.replaceAll('_', ' ') },
    { head: 'what', isWide: true, cell: row => named(row.text) },
    { head: 'rule', cell: row => name(row.rule) },
    {
      head: 'entry',
      cell: row =>
        html`<span class="mono">${name(row.id)}</span>${row.action !== null && html`<small class="mono">action ${named(row.action.slice(0, 12))}</small>`}`,
    },
  ];
  const none = html`<p class="soft">The journal has no entries from the last 7 days.</p>`;
  return section('journal', 'Journal', table('Newest first', columns, journal, { most: 25, none }));
}

export function autoCancelPage(view: AutoCancelView, context: PageContext): Html {
  const body = html`<section id="state" data-live aria-label="State">
${head(view)}${databaseNote(context)}
</section>
${brakes(view, context)}${candidates(view, context)}${rules(view)}${journal(view, context)}`;
  return layout({ title: 'Auto-cancel', context, nav: 'auto-cancel', body, uses: ['pages.css'] });
}
