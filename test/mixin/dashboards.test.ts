import { spawnSync } from 'node:child_process';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { describe, expect, it } from 'vitest';
import { DASHBOARDS } from '../../mixin/alert.ts';
import { alerts, records } from '../../mixin/rules.ts';
import { requireProgram } from '../support/prometheus.ts';
import { alertingRule } from './alerting-rule.ts';
import { knownFamilies, knownSeries } from './known-series.ts';
import { parsePromql } from './parse-promql.ts';
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

describe('rules', () => {
  it.each([
    ...records.map(({ record, expr }) => [record, expr] as const),
    ...alerts.map(alert => [alert.name, alertingRule(alert.name).expr] as const),
  ])('the rule %s uses only existing series and labels', (_name, expr) => expect(faultsOf(expr)).toEqual([]));

  it.skipIf(!requireProgram('promtool'))('rules pass promtool check rules', () => {
    const { status, stdout, stderr } = spawnSync(
      'promtool',
      ['check', 'rules', ...globSync('dashboards/rules/*.yaml')],
      {
        encoding: 'utf8',
      },
    );
    expect(status, stderr).toBe(0);
    expect(stdout.match(/SUCCESS: \d+ rules found/g)).toEqual([
      `SUCCESS: ${alerts.filter(({ set }) => set !== 'extended').length} rules found`,
      `SUCCESS: ${alerts.filter(({ set }) => set === 'extended').length} rules found`,
      `SUCCESS: ${records.length} rules found`,
    ]);
  });

  it('docs/core-alerts.md explains exactly the core alerts', () => {
    const listed = readFileSync('docs/core-alerts.md', 'utf8').matchAll(/^\| \[(Delivery\w+)\]\(runbooks\/\1\.md\)/gm);
    const core = alerts.filter(({ set }) => set === 'core').map(({ name }) => name);
    expect(Array.from(listed, ([, name]) => name).sort()).toEqual(core.sort());
  });

  it.each(alerts)('the alert $name has a severity, annotations, links and formatted values', alert => {
    const places = { runbooks: 'https://wiki.example/r', grafana: 'https://g.example' };
    const { annotations, labels } = alertingRule(alert.name, places);
    expect(['critical', 'warning', 'info', '{{ if eq $value 2.0 }}critical{{ else }}warning{{ end }}']).toContain(
      labels.severity,
    );
    expect(annotations.summary).not.toContain('$value');
    expect(annotations.runbook_url).toBe(`${places.runbooks}/${alert.name}.md`);
    expect(
      Object.values(DASHBOARDS).some(uid => annotations.dashboard_url?.startsWith(`${places.grafana}/d/${uid}`)),
    ).toBe(true);
    const values = annotations.description?.match(/\{\{ \$value[^}]*\}\}/g) ?? [];
    expect(values.every(value => /\| (humanize\w*|printf "%\.0f") /.test(value))).toBe(true);
  });
});

describe('runbooks', () => {
  const titles = new Set(dashboards.flatMap(([, dashboard]) => panelsOf(dashboard).map(({ title }) => title)));

  it('each alert has a runbook, and each runbook belongs to an alert', () => {
    const files = globSync('docs/runbooks/*.md').map(file => basename(file, '.md'));
    expect(files.sort()).toEqual(alerts.map(({ name }) => name).sort());
  });

  it.each(alerts)(
    'the runbook of $name has three sections and valid links, and names only existing metrics and panels',
    ({ name }) => {
      const file = `docs/runbooks/${name}.md`;
      const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
      expect(text, file).toMatch(new RegExp(`^# ${name}\n`));
      const sections = [...text.matchAll(/^## (.*)\n\n([\s\S]*?)(?=\n## |$(?![\s\S]))/gm)];
      expect(sections.map(([, title]) => title)).toEqual(['What it means', 'What to check', 'What to do']);
      for (const [, title, body = ''] of sections) expect(body.trim().length, title).toBeGreaterThan(80);
      const named = text.match(/\bdelivery_[a-z_]+/g) ?? [];
      expect(named.filter(each => !knownSeries.has(each) && !knownFamilies.has(each))).toEqual([]);
      const panels = [...text.matchAll(/(?<!\*)\*([A-Z][^*\n]+)\*(?!\*)/g)].map(([, title]) => title);
      expect(panels.filter((title = '') => !titles.has(title))).toEqual([]);
      for (const [, link = ''] of text.matchAll(/\]\(([^)#]+)/g))
        expect(existsSync(`docs/runbooks/${link}`), link).toBe(true);
    },
  );
});
