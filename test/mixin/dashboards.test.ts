import { spawnSync } from 'node:child_process';
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { alerts, allGroups } from '../../mixin/rules.ts';
import { BUILTIN_ALERTS, BUILTIN_KINDS } from '../../src/rules/checks/alerts.ts';
import { accountPage } from '../../src/status/page/account.ts';
import { context } from '../status/page/context.ts';
import { account } from '../status/page/fixtures/complete-account.ts';
import { newFolder } from '../support/folder.ts';
import { knownFamilies, knownSeries } from './known-series.ts';
import { interpolate, parsePromql } from './parse-promql.ts';
import { promtools } from './promtool.ts';
import { type Dashboard, dashboards, panelsOf } from './read-dashboards.ts';

const expressionsOf = (dashboard: Dashboard) => [
  ...panelsOf(dashboard).flatMap(({ targets }) => targets.map(({ expr }) => expr)),
  ...dashboard.annotations.list.map(({ expr }) => expr),
];

/** Returns an expression's parse errors, unknown series, unknown labels and sums over the label `filter`. */
function faultsOf(expr: string): string[] {
  const { faults, selectors, groupedBy } = parsePromql(expr);
  const labels = new Set(selectors.flatMap(({ name }) => knownSeries.get(name) ?? []));
  return [
    ...faults,
    ...(selectors.length === 0 ? [`${expr}: no series`] : []),
    ...selectors.filter(({ name }) => !knownSeries.has(name)).map(({ name }) => `there is no series ${name}`),
    ...selectors.flatMap(({ name, matchers }) =>
      Object.keys(matchers)
        .filter(label => !knownSeries.get(name)?.includes(label))
        .map(label => `${name} has no label ${label}`),
    ),
    // Rules also group agent-wide series by account, although these series lack this label.
    ...groupedBy
      .filter(label => label !== 'account' && !labels.has(label))
      .map(label => `nothing in ${expr} has the label ${label}`),
    ...selectors
      .filter(({ name, isSummedOverFilter }) => isSummedOverFilter && knownSeries.get(name)?.includes('filter'))
      .map(({ name }) => `${name} is summed over filter`),
  ];
}

describe('expression checks', () => {
  it.each([
    ['sum(delivery_dlq_filter_messages)', ['delivery_dlq_filter_messages is summed over filter']],
    ['sum without (filter) (delivery_dlq_filter_messages)', ['delivery_dlq_filter_messages is summed over filter']],
    ['sum by (filter) (delivery_dlq_filter_messages)', []],
    ['sum(delivery_dlq_messages)', []],
    [
      'max without (instance) (delivery_dlq_message)',
      [
        'there is no series delivery_dlq_message',
        'nothing in max without (instance) (delivery_dlq_message) has the label instance',
      ],
    ],
    ['delivery_up{acount="a"}', ['delivery_up has no label acount']],
    ['sum by (acount) (delivery_up)', ['nothing in sum by (acount) (delivery_up) has the label acount']],
    ['delivery_messages_finished_total_bucket', ['there is no series delivery_messages_finished_total_bucket']],
    ['rate(delivery_events_total[5m]', ['rate(delivery_events_total[5m]: at 30']],
    ['1 + 1', ['1 + 1: no series']],
  ])('faultsOf reports the errors of the expression %s', (expr, faults) => expect(faultsOf(expr)).toEqual(faults));
});

describe.each(dashboards)('the dashboard %s', (_name, dashboard) => {
  it('a dashboard uses only existing series and labels', () => {
    expect(expressionsOf(dashboard).flatMap(faultsOf)).toEqual([]);
  });
});

describe.each(promtools)('queries of the dashboards', promtool => {
  it(`${promtool} accepts the queries of all panels and annotations`, () => {
    const file = join(newFolder(), 'rules.yaml');
    const queries = new Set(dashboards.flatMap(([, dashboard]) => expressionsOf(dashboard)));
    const rules = [...queries].map((expr, index) => ({ record: `query:${index}`, expr: interpolate(expr) }));
    expect(rules.length).toBeGreaterThan(70);
    writeFileSync(file, JSON.stringify({ groups: [{ name: 'queries', rules }] }));
    const { stdout, stderr } = spawnSync(promtool, ['check', 'rules', '--lint=none', file], { encoding: 'utf8' });
    expect(stdout, stderr).toContain(`SUCCESS: ${rules.length} rules`);
  });
});

/** Returns an expression without comments and indentation. */
const withoutComments = (expr: string) => expr.replace(/^ *#.*\n|^ +/gm, '');
const rules = Object.values(allGroups).flatMap(({ rules }) => rules);

describe('rules', () => {
  it.each(rules)('the rule $alert$record uses only existing series and labels', ({ expr }) => {
    expect(faultsOf(expr)).toEqual([]);
  });

  it('the default set has at most 16 rules, with at most 1,500 characters of PromQL, and slo.yaml has at most ten', () => {
    const { default: shipped, slo } = allGroups;
    expect(shipped.rules.length).toBeLessThanOrEqual(16);
    expect(shipped.rules.reduce((sum, { expr }) => sum + withoutComments(expr).length, 0)).toBeLessThanOrEqual(1500);
    expect(slo.rules.length).toBeLessThanOrEqual(10);
  });

  it('no rule or dashboard of the default set reads ALERTS', () => {
    expect(JSON.stringify([allGroups.default, allGroups.slo, dashboards])).not.toMatch(/\bALERTS/);
  });

  it.each(promtools)('rules pass %s check rules', promtool => {
    const { status, stdout, stderr } = spawnSync(promtool, ['check', 'rules', ...globSync('dashboards/rules/*.yaml')], {
      encoding: 'utf8',
    });
    expect(status, stderr).toBe(0);
    expect(stdout.match(/SUCCESS: \d+ rules found/g)).toEqual(
      [allGroups.default, allGroups.slo].map(({ rules }) => `SUCCESS: ${rules.length} rules found`),
    );
  });
});

describe('the PromQL examples in docs/dashboards.md', () => {
  const [, block = ''] = /^```promql\n(.*?)^```/ms.exec(readFileSync('docs/dashboards.md', 'utf8')) ?? [];
  const examples = [...block.matchAll(/^# (.*)\n(.*)$/gm)].map(([, title = '', expr = '']) => [title, expr] as const);

  it('docs/dashboards.md contains five PromQL examples', () => expect(examples).toHaveLength(5));

  it.each(examples)('an example uses only existing series and labels: %s', (_title, expr) =>
    expect(faultsOf(expr)).toEqual([]),
  );

  it.each(promtools)('the examples pass %s check rules', promtool => {
    const file = join(newFolder(), 'rules.yaml');
    const rules = examples.map(([, expr], index) => ({ alert: `Example${index}`, expr }));
    writeFileSync(file, JSON.stringify({ groups: [{ name: 'examples', rules }] }));
    expect(spawnSync(promtool, ['check', 'rules', file], { encoding: 'utf8' }).stdout).toContain('SUCCESS: 5 rules');
  });
});

describe('runbooks', () => {
  /** Texts between tags on the account's page: headings of sections, tables, columns, tiles and charts. */
  const onPage = new Set(
    Array.from(accountPage(account, context).text.matchAll(/>([^<]+)</g), ([, text = '']) => text),
  );

  const files = globSync('docs/runbooks/*.md').map(file => basename(file, '.md'));

  it('each alert of Prometheus and of the agent has a runbook, and each runbook belongs to an alert', () => {
    expect(files.sort()).toEqual([...new Set([...alerts.map(({ alert }) => alert), ...BUILTIN_ALERTS])].sort());
  });

  it('the runbook DeliveryProblem links every kind of problem to the runbook of its alert', () => {
    const text = readFileSync('docs/runbooks/DeliveryProblem.md', 'utf8');
    const listed = text.matchAll(/^- `(\w+)`: \[(\w+)\]\(\2\.md\)$/gm);
    const expected = BUILTIN_KINDS.map(({ kind, alert }) => [kind, alert]);
    expect(Array.from(listed, ([, kind, alert]) => [kind, alert])).toEqual(expected.sort());
  });

  it.each(files)(
    'the runbook %s begins with what to do and the impact, has valid links, and names only existing metrics and parts of the page',
    name => {
      const text = readFileSync(`docs/runbooks/${name}.md`, 'utf8');
      expect(text).toMatch(new RegExp(`^# ${name}\n\nDo: .+\\. If .+, .+\\.\n\nImpact: .*\\.\n\n## `));
      const sections = [...text.matchAll(/^## (.*)\n\n([\s\S]*?)(?=\n## |$(?![\s\S]))/gm)];
      const more = name === 'DeliveryDlqGrowing' ? ['Retry in batches'] : [];
      expect(sections.map(([, title]) => title)).toEqual(['What to check', ...more, 'What it means']);
      for (const [, title, body = ''] of sections) expect(body.trim().length, title).toBeGreaterThan(60);
      const named = text.match(/\bdelivery_[a-z_]+/g) ?? [];
      expect(named.filter(each => !knownSeries.has(each) && !knownFamilies.has(each))).toEqual([]);
      const parts = [...text.matchAll(/(?<!\*)\*([A-Z][^*\n]+)\*(?!\*)/g)].map(([, title]) => title);
      expect(parts.filter((title = '') => !onPage.has(title))).toEqual([]);
      for (const [, link = ''] of text.matchAll(/\]\(([^)#]+)/g))
        expect(existsSync(`docs/runbooks/${link}`), link).toBe(true);
    },
  );
});
