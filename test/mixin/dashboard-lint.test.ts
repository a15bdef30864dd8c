import { describe, expect, it } from 'vitest';
import { DASHBOARDS } from '../../mixin/alert.ts';
import { knownSeries } from './known-series.ts';
import { parsePromql } from './parse-promql.ts';
import { type Dashboard, dashboards, type Panel, panelsOf } from './read-dashboards.ts';

// biome-ignore lint/suspicious/noTemplateCurlyInString: Grafana's own variable.
const DATASOURCE = '${datasource}';

const expressionsOf = (dashboard: Dashboard) => [
  ...panelsOf(dashboard).flatMap(({ targets }) => targets.map(({ expr }) => expr)),
  ...dashboard.annotations.list.map(({ expr }) => expr),
];

describe.each(dashboards)('the dashboard %s, by the rules of dashboard-linter', (name, dashboard) => {
  it('template-datasource, template-job, template-instance, template-on-time-change-reload', () => {
    const [datasource, ...others] = dashboard.templating.list;
    expect(datasource).toMatchObject({
      name: 'datasource',
      type: 'datasource',
      label: 'Data source',
      query: 'prometheus',
    });
    const labels = others.filter(({ type }) => type === 'query');
    expect(labels.map(({ name, label }) => [name, label])).toEqual([
      ['job', 'Job'],
      ['instance', 'Instance'],
      ['account', 'Account'],
    ]);
    for (const label of labels) {
      expect(label).toMatchObject({ multi: true, allValue: '.+', refresh: 2, datasource: { uid: DATASOURCE } });
    }
    // Addresses for links: not shown.
    expect(others.filter(({ type }) => type !== 'query')).toMatchObject([
      { name: 'traces', type: 'constant', hide: 2 },
    ]);
  });

  it('template-label-promql', () => {
    const queries = dashboard.templating.list
      .filter(({ type }) => type === 'query')
      .map(({ query }) => (typeof query === 'string' ? query : query.query));
    for (const query of queries) {
      const [, selector = ''] = /^label_values\((.*), \w+\)$/.exec(query) ?? [];
      expect(parsePromql(selector).faults, query).toEqual([]);
      expect(parsePromql(selector).selectors, query).toHaveLength(1);
    }
  });

  it('panel-datasource, panel-title-description, panel-units, panel-no-targets', () => {
    for (const { title, description, datasource, targets, type, fieldConfig, options } of panelsOf(dashboard)) {
      expect(datasource.uid, title).toBe(DATASOURCE);
      expect(title).not.toBe('');
      expect(description, title).toMatch(/\?/);
      expect(type === 'heatmap' ? options.yAxis?.unit : fieldConfig.defaults.unit, title).toMatch(/./);
      expect(targets.length, title).toBeGreaterThan(0);
      for (const { datasource } of targets) expect(datasource.uid, title).toBe(DATASOURCE);
    }
  });

  it('target-job, target-instance, and the account of everything that has one', () => {
    for (const expr of expressionsOf(dashboard)) {
      for (const { name, matchers } of parsePromql(expr).selectors) {
        expect(matchers.job, expr).toMatch(/^=~"\.\+\|?"$/);
        // Rules take the highest of all instances: alerts and records of accounts are of none.
        if (!/^ALERTS|^account/.test(name)) expect(matchers.instance, expr).toBe('=~".+"');
        if (knownSeries.get(name)?.includes('account')) expect(matchers.account, expr).toMatch(/^=~"\.\+\|?"$/);
      }
    }
  });

  it('target-rate-interval, target-counter-agg', () => {
    for (const expr of expressionsOf(dashboard)) {
      for (const { name, inside = '', range } of parsePromql(expr).selectors) {
        if (/_(total|bucket|sum|count)$/.test(name)) expect(inside, expr).toMatch(/^(rate|irate|increase)$/);
        // 1m stands for $__rate_interval.
        if (/^i?rate$/.test(inside)) expect(range, expr).toBe('1m');
      }
    }
  });

  it('can be edited, and imported anew', () => expect(dashboard.editable).toBe(true));

  it('links to all of them, with what was chosen', () => {
    expect(dashboard.uid).toBe(DASHBOARDS[name as keyof typeof DASHBOARDS]);
    expect(dashboard.links.map(({ url }) => url)).toEqual(Object.values(DASHBOARDS).map(uid => `/d/${uid}`));
    expect(dashboard.links.every(({ includeVars, keepTime }) => includeVars && keepTime)).toBe(true);
  });
});

/** Cells of the grid that a panel covers. */
const cellsOf = ({ gridPos: { x, y, w, h } }: Panel) =>
  Array.from({ length: w * h }, (_, i) => `${x + (i % w)} ${y + Math.floor(i / w)}`);

/** Panels as they are laid out when one row is opened. */
const layouts = ({ panels }: Dashboard) => [
  panels,
  ...panels.filter(({ collapsed }) => collapsed).map(row => [row, ...(row.panels ?? [])]),
];

describe.each(dashboards)('the layout of the dashboard %s', (_name, dashboard) => {
  it('covers the grid without a hole or an overlap', () => {
    for (const panels of layouts(dashboard)) {
      const cells = panels.flatMap(cellsOf);
      expect(new Set(cells).size).toBe(cells.length);
      const top = Math.min(...panels.map(({ gridPos }) => gridPos.y));
      const bottom = Math.max(...panels.map(({ gridPos: { y, h } }) => y + h));
      expect(cells.length).toBe(24 * (bottom - top));
      expect(panels.every(({ gridPos: { x, w } }) => x + w <= 24)).toBe(true);
    }
  });

  it('gives each panel a number and a title of its own', () => {
    const all = dashboard.panels.flatMap(panel => [panel, ...(panel.panels ?? [])]);
    expect(new Set(all.map(({ id }) => id)).size).toBe(all.length);
    expect(new Set(panelsOf(dashboard).map(({ title }) => title)).size).toBe(panelsOf(dashboard).length);
  });

  it('keeps titles short enough for their width on a screen of 1280 pixels, and at most six numbers in a line', () => {
    // A column is about 50 pixels there, a letter of a title about 7.5.
    for (const { title, gridPos } of panelsOf(dashboard)) {
      expect(title.length, title).toBeLessThanOrEqual((gridPos.w * 50 - 50) / 7.5);
    }
    const inLines = Object.values(
      Object.groupBy(
        panelsOf(dashboard).filter(({ type }) => type === 'stat'),
        ({ gridPos }) => gridPos.y,
      ),
    );
    for (const line of inLines) expect(line?.length).toBeLessThanOrEqual(6);
  });
});
