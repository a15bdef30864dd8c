import { describe, expect, it } from 'vitest';
import { DASHBOARDS } from '../../mixin/dashboard-links.ts';
import { knownSeries } from './known-series.ts';
import { parsePromql } from './parse-promql.ts';
import { type Dashboard, dashboards, type Panel, panelsOf } from './read-dashboards.ts';

// biome-ignore lint/suspicious/noTemplateCurlyInString: Grafana's own variable.
const DATASOURCE = '${datasource}';

const expressionsOf = (dashboard: Dashboard) => [
  ...panelsOf(dashboard).flatMap(({ targets }) => targets.map(({ expr }) => expr)),
  ...dashboard.annotations.list.map(({ expr }) => expr),
];

describe.each(dashboards)('the dashboard %s (rules of dashboard-linter)', (name, dashboard) => {
  it('a dashboard follows template-datasource, template-job, template-instance and template-on-time-change-reload', () => {
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
    // The others are hidden constants that contain addresses for links.
    expect(others.filter(({ type }) => type !== 'query')).toMatchObject([
      { name: 'traces', type: 'constant', hide: 2 },
    ]);
  });

  it('a dashboard can be imported by hand and from files: it names the plugins that it needs, and needs no inputs', () => {
    const types = new Set(panelsOf(dashboard).map(({ type }) => type));
    const required = ['grafana grafana', 'datasource prometheus', ...[...types].sort().map(type => `panel ${type}`)];
    expect(dashboard.__requires.map(({ type, id }) => `${type} ${id}`)).toEqual(required);
    for (const { id, name } of dashboard.__requires) expect(name, id).toMatch(/^[A-Z]/);
    expect(dashboard.__inputs).toEqual([]);
    // Placeholders of inputs, which provisioning from files does not replace.
    expect(JSON.stringify(dashboard)).not.toMatch(/\$\{(DS|VAR)_/);
  });

  it('a dashboard follows template-label-promql', () => {
    const queries = dashboard.templating.list
      .filter(({ type }) => type === 'query')
      .map(({ query }) => (typeof query === 'string' ? query : query.query));
    for (const query of queries) {
      const [, selector = ''] = /^label_values\((.*), \w+\)$/.exec(query) ?? [];
      expect(parsePromql(selector).faults, query).toEqual([]);
      expect(parsePromql(selector).selectors, query).toHaveLength(1);
    }
  });

  it('a dashboard follows panel-datasource, panel-title-description, panel-units and panel-no-targets', () => {
    for (const { title, description, datasource, targets, type, fieldConfig, options } of panelsOf(dashboard)) {
      expect(datasource.uid, title).toBe(DATASOURCE);
      expect(title).not.toBe('');
      expect(description, title).toMatch(/\?/);
      expect(type === 'heatmap' ? options.yAxis?.unit : fieldConfig.defaults.unit, title).toMatch(/./);
      expect(targets.length, title).toBeGreaterThan(0);
      for (const { datasource } of targets) expect(datasource.uid, title).toBe(DATASOURCE);
    }
  });

  it('the queries of a dashboard select job, instance and account (target-job, target-instance)', () => {
    for (const expr of expressionsOf(dashboard)) {
      for (const { name, matchers } of parsePromql(expr).selectors) {
        expect(matchers.job, expr).toMatch(/^=~"\.\+\|?"$/);
        expect(matchers.instance, expr).toBe('=~".+"');
        if (knownSeries.get(name)?.includes('account')) expect(matchers.account, expr).toMatch(/^=~"\.\+\|?"$/);
      }
    }
  });

  it('a dashboard follows target-rate-interval and target-counter-agg', () => {
    for (const expr of expressionsOf(dashboard)) {
      for (const { name, inside = '', range } of parsePromql(expr).selectors) {
        if (/_(total|bucket|sum|count)$/.test(name)) expect(inside, expr).toMatch(/^(rate|irate|increase)$/);
        // `interpolate` has replaced $__rate_interval with 1m.
        if (/^i?rate$/.test(inside)) expect(range, expr).toBe('1m');
      }
    }
  });

  it('bars count each event in one interval, intervals are at least a minute, and no query reads more than a week', () => {
    for (const { title, interval, targets, fieldConfig } of panelsOf(dashboard)) {
      expect(interval, title).toBe('1m');
      const isBars = fieldConfig.defaults.custom?.drawStyle === 'bars';
      for (const { expr } of targets) {
        if (isBars) expect(expr, title).toMatch(/\[\$__interval\]/);
        expect(expr, title).not.toMatch(/\[(\d{2,}d|[89]d|\d+[wy])/);
      }
    }
  });

  it('expressions of a dashboard have at most 500 characters', () => {
    expect(expressionsOf(dashboard).filter(({ length }) => length > 500)).toEqual([]);
  });

  it('a dashboard can be edited', () => expect(dashboard.editable).toBe(true));

  it('a dashboard links to every dashboard, and the links keep the variables and the time range', () => {
    expect(dashboard.uid).toBe(DASHBOARDS[name as keyof typeof DASHBOARDS]);
    expect(dashboard.links.map(({ url }) => url)).toEqual(Object.values(DASHBOARDS).map(uid => `/d/${uid}`));
    expect(dashboard.links.every(({ includeVars, keepTime }) => includeVars && keepTime)).toBe(true);
  });
});

/** Returns the grid cells that a panel covers. */
const cellsOf = ({ gridPos: { x, y, w, h } }: Panel) =>
  Array.from({ length: w * h }, (_, i) => `${x + (i % w)} ${y + Math.floor(i / w)}`);

/**
 * Returns the groups of panels that are visible together: all panels outside of collapsed rows, and each collapsed row with its
 * panels.
 */
const layouts = ({ panels }: Dashboard) => [
  panels,
  ...panels.filter(({ collapsed }) => collapsed).map(row => [row, ...(row.panels ?? [])]),
];

describe('number of panels', () => {
  it('all dashboards together have at most 45 panels', () => {
    const advice = 'replace a panel, or add a column or a query to an existing one';
    expect(dashboards.flatMap(([, dashboard]) => panelsOf(dashboard)).length, advice).toBeLessThanOrEqual(45);
  });
});

describe.each(dashboards)('the layout of the dashboard %s', (_name, dashboard) => {
  it('the layout of a dashboard covers the grid without gaps or overlaps', () => {
    for (const panels of layouts(dashboard)) {
      const cells = panels.flatMap(cellsOf);
      expect(new Set(cells).size).toBe(cells.length);
      const top = Math.min(...panels.map(({ gridPos }) => gridPos.y));
      const bottom = Math.max(...panels.map(({ gridPos: { y, h } }) => y + h));
      expect(cells.length).toBe(24 * (bottom - top));
      expect(panels.every(({ gridPos: { x, w } }) => x + w <= 24)).toBe(true);
    }
  });

  it('panels of a dashboard have unique ids and titles', () => {
    const all = dashboard.panels.flatMap(panel => [panel, ...(panel.panels ?? [])]);
    expect(new Set(all.map(({ id }) => id)).size).toBe(all.length);
    expect(new Set(panelsOf(dashboard).map(({ title }) => title)).size).toBe(panelsOf(dashboard).length);
  });

  it('panel titles fit at a screen width of 1280 pixels, and a line has at most six stat panels', () => {
    // At this width, a grid column is about 50 pixels wide and a title character about 7.5.
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
