import { spawnSync } from 'node:child_process';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { describe, expect, it } from 'vitest';
import { DASHBOARDS } from '../../src/mixin/alert.ts';
import { generatedFiles } from '../../src/mixin/generated.ts';
import { alertGroups, alertingRule, DEFAULTS, records } from '../../src/mixin/rules.ts';
import { requireProgram } from '../support/prometheus.ts';
import { knownFamilies, knownSeries } from './known-series.ts';
import { parsePromql } from './parse-promql.ts';

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title?: string;
  readonly description?: string;
  readonly datasource?: { readonly uid: string };
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly fieldConfig?: { readonly defaults: { readonly unit?: string } };
  readonly targets?: readonly { readonly expr: string; readonly datasource: { readonly uid: string } }[];
  readonly panels?: readonly Panel[];
}

interface Dashboard {
  readonly uid: string;
  readonly editable: boolean;
  readonly panels: readonly Panel[];
  readonly links: readonly { readonly url: string; readonly includeVars: boolean; readonly keepTime: boolean }[];
  readonly annotations: { readonly list: readonly { readonly expr: string }[] };
  readonly templating: {
    readonly list: readonly {
      readonly name: string;
      readonly type: string;
      readonly label: string;
      readonly query: string | { readonly query: string };
      readonly datasource?: { readonly uid: string };
      readonly multi: boolean;
      readonly allValue?: string;
      readonly refresh?: number;
    }[];
  };
}

const generated = generatedFiles();
const dashboards = Object.keys(DASHBOARDS).map(
  name => [name, JSON.parse(generated[`dashboards/${name}.json`] ?? '') as Dashboard] as const,
);
// biome-ignore lint/suspicious/noTemplateCurlyInString: Grafana's own variable.
const DATASOURCE = '${datasource}';

const panelsOf = ({ panels }: Dashboard) =>
  panels.flatMap(panel => (panel.type === 'row' ? (panel.panels ?? []) : [panel]));
const expressionsOf = (dashboard: Dashboard) => [
  ...panelsOf(dashboard).flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr }))),
  ...dashboard.annotations.list.map(({ expr }) => ({ title: 'an annotation', expr })),
];

/** What an expression says that can't be so. */
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
    ...groupedBy.filter(label => !labels.has(label)).map(label => `nothing in ${expr} has the label ${label}`),
    ...selectors
      .filter(({ name, isSummedOverFilter }) => isSummedOverFilter && knownSeries.get(name)?.includes('filter'))
      .map(({ name }) => `${name} is summed over filter`),
  ];
}

describe('the checks of expressions', () => {
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
  ])('%s', (expr, faults) => expect(faultsOf(expr)).toEqual(faults));
});

describe.each(dashboards)('the dashboard %s', (name, dashboard) => {
  it('names series and labels that there are', () => {
    expect(expressionsOf(dashboard).flatMap(({ expr }) => faultsOf(expr))).toEqual([]);
  });

  // What follows are the rules of Grafana's dashboard-linter, by their names there.
  it('template-datasource, template-job, template-instance, template-on-time-change-reload', () => {
    const [datasource, ...labels] = dashboard.templating.list;
    expect(datasource).toMatchObject({
      name: 'datasource',
      type: 'datasource',
      label: 'Data source',
      query: 'prometheus',
    });
    expect(labels.map(({ name, label }) => [name, label])).toEqual([
      ['job', 'Job'],
      ['instance', 'Instance'],
      ['account', 'Account'],
    ]);
    for (const label of labels) {
      expect(label).toMatchObject({
        type: 'query',
        multi: true,
        allValue: '.+',
        refresh: 2,
        datasource: { uid: DATASOURCE },
      });
    }
  });

  it('template-label-promql', () => {
    const queries = dashboard.templating.list
      .slice(1)
      .map(({ query }) => (typeof query === 'string' ? query : query.query));
    for (const query of queries) {
      const [, selector = ''] = /^label_values\((.*), \w+\)$/.exec(query) ?? [];
      expect(parsePromql(selector).faults, query).toEqual([]);
      expect(parsePromql(selector).selectors, query).toHaveLength(1);
    }
  });

  it('panel-datasource, panel-title-description, panel-units, panel-no-targets', () => {
    for (const panel of panelsOf(dashboard)) {
      expect(panel.datasource?.uid, panel.title).toBe(DATASOURCE);
      expect(panel.title).not.toBe('');
      expect(panel.description, panel.title).toMatch(/\?/);
      expect(panel.fieldConfig?.defaults.unit, panel.title).toMatch(/./);
      expect(panel.targets?.length, panel.title).toBeGreaterThan(0);
      for (const { datasource } of panel.targets ?? []) expect(datasource.uid, panel.title).toBe(DATASOURCE);
    }
  });

  it('target-job, target-instance, and the account of everything that has one', () => {
    for (const { expr } of expressionsOf(dashboard)) {
      for (const { name, matchers } of parsePromql(expr).selectors) {
        expect(matchers.job, expr).toBe('=~".+"');
        // Rules take the highest of all instances, so that alerts are of none.
        if (name !== 'ALERTS') expect(matchers.instance, expr).toBe('=~".+"');
        if (knownSeries.get(name)?.includes('account')) expect(matchers.account, expr).toMatch(/^=~"\.\+\|?"$/);
      }
    }
  });

  it('target-rate-interval, target-counter-agg', () => {
    for (const { expr } of expressionsOf(dashboard)) {
      for (const { name, inside = '', range } of parsePromql(expr).selectors) {
        if (/_(total|bucket|sum|count)$/.test(name)) expect(inside, expr).toMatch(/^(rate|irate|increase)$/);
        // 1m stands for $__rate_interval.
        if (/^i?rate$/.test(inside)) expect(range, expr).toBe('1m');
      }
    }
  });

  it('uneditable', () => expect(dashboard.editable).toBe(false));

  it('has panels that do not cover each other, each with a number and a title of its own', () => {
    const all = dashboard.panels.flatMap(panel => [panel, ...(panel.panels ?? [])]);
    expect(new Set(all.map(({ id }) => id)).size).toBe(all.length);
    expect(new Set(panelsOf(dashboard).map(({ title }) => title)).size).toBe(panelsOf(dashboard).length);
    const cells = all.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, i) => `${x + (i % w)} ${y + Math.floor(i / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
    expect(all.every(({ gridPos: { x, w } }) => x + w <= 24)).toBe(true);
  });

  it('links to all of them, with what was chosen', () => {
    expect(dashboard.uid).toBe(DASHBOARDS[name as keyof typeof DASHBOARDS]);
    expect(dashboard.links.map(({ url }) => url)).toEqual(Object.values(DASHBOARDS).map(uid => `/d/${uid}`));
    expect(dashboard.links.every(({ includeVars, keepTime }) => includeVars && keepTime)).toBe(true);
  });
});

const alerts = alertGroups.flatMap(({ alerts }) => alerts);

describe('rules', () => {
  it.each([
    ...records.map(({ record, expr }) => [record, expr] as const),
    ...alerts.map(alert => [alert.name, alertingRule(alert).expr] as const),
  ])('%s names series and labels that there are', (_name, expr) => expect(faultsOf(expr)).toEqual([]));

  it.skipIf(!requireProgram('promtool'))('are taken by promtool', () => {
    const { status, stdout, stderr } = spawnSync(
      'promtool',
      ['check', 'rules', ...globSync('dashboards/rules/*.yaml')],
      {
        encoding: 'utf8',
      },
    );
    expect(status, stderr).toBe(0);
    expect(stdout.match(/SUCCESS: \d+ rules found/g)).toEqual([
      `SUCCESS: ${alerts.length} rules found`,
      `SUCCESS: ${records.length} rules found`,
    ]);
  });

  it.each(alerts)('$name says all that an alert should', alert => {
    const { annotations, labels } = alertingRule(alert);
    expect(['critical', 'warning', 'info']).toContain(labels.severity);
    expect(annotations.summary).not.toContain('$value');
    expect(annotations.runbook_url).toBe(`${DEFAULTS.runbooks}/${alert.name}.md`);
    expect(
      Object.values(DASHBOARDS).some(uid => annotations.dashboard_url.startsWith(`${DEFAULTS.grafana}/d/${uid}`)),
    ).toBe(true);
    const values = annotations.description.match(/\{\{ \$value[^}]*\}\}/g) ?? [];
    expect(values.every(value => /\| (humanize\w*|printf "%\.0f") /.test(value))).toBe(true);
  });
});

describe('runbooks', () => {
  it('there is one for each alert, and no other', () => {
    const files = globSync('docs/runbooks/*.md').map(file => basename(file, '.md'));
    expect(files.sort()).toEqual(alerts.map(({ name }) => name).sort());
  });

  it.each(alerts)('$name: what it means, how to look, what to do', ({ name }) => {
    const file = `docs/runbooks/${name}.md`;
    const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
    expect(text, file).toMatch(new RegExp(`^# ${name}\n`));
    const sections = [...text.matchAll(/^## (.*)\n\n([\s\S]*?)(?=\n## |$(?![\s\S]))/gm)];
    expect(sections.map(([, title]) => title)).toEqual(['What it means', 'How to look', 'What to do']);
    for (const [, title, body = ''] of sections) expect(body.trim().length, title).toBeGreaterThan(80);
    const named = text.match(/\bdelivery_[a-z_]+/g) ?? [];
    expect(named.filter(each => !knownSeries.has(each) && !knownFamilies.has(each))).toEqual([]);
    for (const [, link = ''] of text.matchAll(/\]\(([^)#]+)/g))
      expect(existsSync(`docs/runbooks/${link}`), link).toBe(true);
  });
});
