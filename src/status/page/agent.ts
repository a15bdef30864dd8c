import type { AgentView } from '../api/agent.ts';
import { ago, at, bytes, count, lasting, plural } from './format.ts';
import { type Html, html } from './html.ts';
import { layout, type PageContext } from './layout.ts';
import { leaderSection } from './leader.ts';
import { errorList, named, problemList, verdict } from './problems.ts';
import { type Column, name, outcomeColumns, section, table, tile, tilePanel } from './tile.ts';

function head({ problems, version, rounds }: AgentView): Html {
  const look = problems[0]?.severity ?? 'ok';
  const state = look === 'info' ? 'ok' : look;
  const sentence = problems.length === 0 ? 'All right' : plural(problems.length, 'problem');
  return verdict(
    state,
    html`The agent — ${sentence}`,
    html`delivery-watch ${version} · ${count(rounds.total)} rounds, ${count(rounds.failing)} failing, ${count(rounds.stale)} stale`,
  );
}

function lastReload({ lastReload, now }: AgentView): Html {
  if (lastReload === null)
    return html`<p class="soft">The configuration has not been reloaded since the agent started.</p>`;
  const clock = Date.parse(now);
  const { changed, faults } = lastReload;
  const when = html`${at(lastReload.at, clock)}, ${ago(lastReload.at, clock)}`;
  if (faults.length > 0) {
    return html`<h3>The last reload failed; the previous configuration stays active</h3><p class="soft">${when}</p>\n${errorList(faults)}`;
  }
  const what =
    changed.length === 0
      ? html`<p>No changes.</p>`
      : html`<ul class="plain">${changed.map(each => html`<li>${named(each)}</li>`)}</ul>`;
  return html`<h3>The last reload</h3><p class="soft">${when}</p>${what}`;
}

function configuration(view: AgentView): Html {
  const { config, now } = view;
  const clock = Date.parse(now);
  const body = html`<dl class="facts"><dt>file</dt><dd class="mono">${named(config.file)}</dd><dt>hash</dt><dd class="mono">${config.hash}</dd><dt>in use since</dt><dd>${at(config.loadedAt, clock)}, ${ago(config.loadedAt, clock)}</dd></dl>
${lastReload(view)}
<details id="yaml"><summary>The configuration in use, with every default; secrets are redacted</summary>
<pre class="file" tabindex="0" role="region" aria-label="The configuration in use">${config.yaml}</pre></details>`;
  return section('configuration', 'Configuration', body);
}

function store({ store: of }: AgentView): Html {
  const body = tilePanel(
    tile('Kind', html`${of.kind}`, of.path !== null && html`<span class="mono">${named(of.path)}</span>`),
    tile('Size', bytes(of.bytes)),
    tile('History kept', lasting(of.historyKeepSeconds), html`in at most ${bytes(of.historyMaxBytes)}`),
  );
  return section('store', 'Store', body);
}

function notifiers({ notifiers }: AgentView): Html {
  const outcomes = [...new Set(notifiers.flatMap(({ outcomes }) => Object.keys(outcomes)))];
  const columns: Column<AgentView['notifiers'][number]>[] = [
    { head: 'notifier', cell: row => name(row.name) },
    { head: 'kind', cell: row => row.kind },
    // An outcome may have the name of an inherited property, such as `constructor`.
    ...outcomeColumns<AgentView['notifiers'][number]>(outcomes, ({ outcomes: own }, outcome) =>
      Object.hasOwn(own, outcome) ? own[outcome] : undefined,
    ),
  ];
  const none = html`<p class="soft">None is configured (<code>alerts.notifiers</code>).</p>`;
  const caption = 'Notifications by outcome, since the process started';
  return section('notifiers', 'Notifiers', table(caption, columns, notifiers, { none }));
}

function process_(view: AgentView): Html {
  const clock = Date.parse(view.now);
  const body = tilePanel(
    tile('Version', html`${view.version}`, html`Node.js ${view.node}`),
    tile('Started', ago(view.startedAt, clock), at(view.startedAt, clock)),
    tile('Memory', bytes(view.residentBytes), 'resident'),
    tile('HTTP operations', html`${view.lifecycle ? 'on' : 'off'}`, html`<code>server.lifecycle</code>`),
  );
  return section('process', 'Process', body);
}

const LINKS: readonly (readonly [path: string, what: string])[] = [
  ['metrics', 'all metrics, for Prometheus'],
  ['metrics/agent', 'the agent’s own metrics'],
  ['api/v1/openapi.json', 'description of the API'],
  ['api/v1/sd', 'service discovery'],
  ['-/healthy', 'whether the process is alive'],
  ['-/ready', 'whether it is ready'],
];

export function agentPage(view: AgentView, context: PageContext): Html {
  const links = LINKS.map(
    ([path, what]) => html`<dt><a href="${context.root + path}">/${path}</a></dt><dd>${what}</dd>`,
  );
  const body = html`<section id="state" data-live aria-label="State">
${head(view)}
${view.problems.length > 0 && html`<h2>Problems</h2>\n${problemList(view.problems, context, false)}`}
</section>
${process_(view)}${leaderSection(view)}${configuration(view)}${store(view)}${notifiers(view)}
<h2>More</h2>
<dl class="facts">${links}</dl>`;
  return layout({ title: 'Agent', context, nav: 'agent', body, uses: ['pages.css'] });
}
