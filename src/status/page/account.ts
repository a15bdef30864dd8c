import type { AccountView } from '../api/account.ts';
import { CHART_ASSETS, charted, chartRange } from './charts.ts';
import { deadLettersSection } from './dead-letters.ts';
import { eventsSection } from './events.ts';
import { flowControlSection, queuesSection } from './flow-control.ts';
import { plural } from './format.ts';
import { type Html, html } from './html.ts';
import { layout, type PageContext } from './layout.ts';
import { alertLists, databaseNote, named, problemList, STATE_WORDS, shownState, verdict } from './problems.ts';
import { callsSection, rounds, schedules, workflowRuns } from './rounds.ts';

const PLACES = {
  'dead-letters': 'Dead letters',
  events: 'Events',
  'flow-control': 'Flow control',
  queues: 'Queues',
  schedules: 'Schedules',
  rounds: 'Data freshness',
  calls: 'Calls',
} as const;

function head({ account, state: own, problems, alerts, up }: AccountView): Html {
  const state = shownState(own, alerts);
  const firing = alerts.filter(alert => alert.state === 'firing').length;
  const calm = firing > 0 ? `${plural(firing, 'alert')} firing.` : 'No problems.';
  const quiet = state === 'unknown' ? 'Nothing has been read yet.' : up ? calm : 'The last read failed.';
  return verdict(
    state,
    html`${named(account)}: ${STATE_WORDS[state]}`,
    problems.length > 0 ? `${plural(problems.length, 'problem')} · ${plural(firing, 'alert')} firing` : quiet,
  );
}

function about({ baseUrl, region, plan, labels }: AccountView): Html {
  const facts = Object.entries({ region, plan, ...labels }).filter(([, value]) => value !== null);
  return html`<p class="soft about">${named(baseUrl)}${facts.map(([what, value]) => html` · ${named(what)} <b>${named(value ?? '')}</b>`)}</p>`;
}

export function accountPage(view: AccountView, context: PageContext): Html {
  const { problems, account } = view;
  const links = Object.entries(PLACES).map(([id, word]) => html`<a href="#${id}">${word}</a> `);
  const body = html`<section id="state" data-live aria-label="State">
${head(view)}${about(view)}${databaseNote(context)}
${problems.length > 0 && html`<h2>${problems[0]?.severity === 'info' ? 'Worth knowing' : 'Problems'}</h2>\n${problemList(problems, context, false)}`}
${alertLists('Alerts', view, context)}
</section>
<div class="places"><nav aria-label="On this page">${links}</nav>${chartRange()}</div>
${deadLettersSection(view, context)}${eventsSection(view, context)}${flowControlSection(view)}${queuesSection(view, context)}${schedules(view)}${workflowRuns(view)}${rounds(view)}${callsSection(view)}`;
  const whole = charted(account, context, body);
  return layout({ title: account, context, nav: 'overview', body: whole, uses: CHART_ASSETS });
}
