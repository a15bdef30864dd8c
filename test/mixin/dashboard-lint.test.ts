import { describe, expect, it } from 'vitest';
import { CALLBACK_STATES } from '../../src/collectors/dlq/families.ts';
import { LEFT_REASONS } from '../../src/collectors/dlq/selection.ts';
import { RESULTS, STATUS_CLASSES } from '../../src/collectors/events/tally.ts';
import { autoCancelFamilies } from '../../src/metrics/auto-cancel.ts';
import { DASHBOARDS } from '../../src/mixin/alert.ts';
import { FINAL_OUTCOMES } from '../../src/model/journal.ts';
import { EVENT_STATES, OUTCOMES } from '../../src/model/message.ts';
import { OUTCOMES as REQUEST_OUTCOMES } from '../../src/upstream/errors.ts';
import { knownSeries } from './known-series.ts';
import { parsePromql } from './parse-promql.ts';
import { type Dashboard, dashboards, type Panel, panelsOf } from './read-dashboards.ts';

// biome-ignore lint/suspicious/noTemplateCurlyInString: Grafana's own variable.
const DATASOURCE = '${datasource}';

const expressionsOf = (dashboard: Dashboard) => [
  ...panelsOf(dashboard).flatMap(({ targets }) => targets.map(({ expr }) => expr)),
  ...dashboard.annotations.list.map(({ expr }) => expr),
];

/** Every value under any of these keys, wherever it is. */
function valuesOf(json: unknown, keys: readonly string[]): unknown[] {
  if (typeof json !== 'object' || json === null) return [];
  return Object.entries(json).flatMap(([key, value]) => [
    ...(keys.includes(key) ? [value] : []),
    ...valuesOf(value, keys),
  ]);
}

/** Colours of Grafana's palette, which each theme has in a shade of its own. */
const NAMED = /^((super-light|light|semi-dark|dark)-)?(red|orange|yellow|green|blue|purple)$|^(gray|text|transparent)$/;

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
      { name: 'runbooks', type: 'constant', hide: 2 },
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

const SHOWS_LINES = ['timeseries', 'state-timeline'];
/** Grafana's words for durations: neighbouring ticks of an axis read alike. */
const REPEATS_TICKS = ['dtdurations', 'dtdurationms', 'dthms', 'clocks'];

describe.each(dashboards)('what the dashboard %s draws', (_name, dashboard) => {
  const panels = panelsOf(dashboard);

  it('has a legend and a tooltip of all lines', () => {
    for (const { title, options } of panels.filter(({ type }) => SHOWS_LINES.includes(type))) {
      expect(options.legend?.showLegend, title).toBe(true);
      expect(options.tooltip?.mode, title).toBe('multi');
      if (options.legend?.displayMode !== 'table') continue;
      expect(options.legend, title).toMatchObject({ placement: 'right', calcs: ['lastNotNull', 'max'] });
    }
    for (const { title, options } of panels.filter(({ type }) => type === 'timeseries')) {
      expect(options.tooltip?.sort, title).toBe('desc');
    }
  });

  it('names its lines', () => {
    for (const { title, type, targets } of panels.filter(({ type }) => type !== 'table')) {
      for (const { expr, legendFormat } of targets) {
        const isOne = type === 'stat' && /^(sum|count|time\(\)|0 \*)/.test(expr);
        expect(legendFormat !== '' || isOne, `${title}: ${expr}`).toBe(true);
      }
    }
    const isNamed = ({ targets }: Panel) => targets.some(({ legendFormat }) => legendFormat !== '');
    for (const panel of panels.filter(({ type }) => type === 'stat')) {
      expect(panel.options.textMode, panel.title).toBe(isNamed(panel) ? 'value_and_name' : 'value');
    }
  });

  it('takes the worst of all accounts where it shows one number, and never a mean of them', () => {
    for (const { expr } of panels.filter(({ type }) => type === 'stat').flatMap(({ targets }) => targets)) {
      expect(expr).not.toMatch(/\bavg\b|sum\(.*\) \/ sum\(/s);
    }
  });

  it('chooses its top ten once for the range that it shows', () => {
    for (const { expr, instant } of panels.flatMap(({ targets }) => targets)) {
      if (!/\b(topk|bottomk)\(/.test(expr)) continue;
      if (instant) expect(expr).not.toContain('@ end()');
      else
        expect(expr).toMatch(
          /\nand (topk|bottomk)\(10, \w+_over_time\(.*\[\$__range:\$__rate_interval\] @ end\(\)\)\)$/s,
        );
    }
  });

  it('asks for one value where it shows the last, and for the range where it draws', () => {
    for (const { title, type, targets } of panels) {
      const showsLast = ['stat', 'table'].includes(type);
      for (const { instant, range, format, exemplar = false } of targets) {
        expect({ instant, range, format, exemplar }, title).toEqual({
          instant: showsLast,
          range: !showsLast,
          format: type === 'table' || type === 'heatmap' ? type : 'time_series',
          exemplar: type === 'heatmap',
        });
      }
    }
  });

  it('begins axes at zero, and draws nothing at all at the bottom', () => {
    for (const { title, fieldConfig } of panels.filter(({ type }) => type === 'timeseries')) {
      const { min, unit = '', custom } = fieldConfig.defaults;
      if (!title.startsWith('Change')) expect(min, title).toBe(0);
      expect(custom?.axisSoftMax, title).toBeLessThanOrEqual(1024);
      expect(custom?.axisSoftMax, title).toBeGreaterThan(0);
      expect(REPEATS_TICKS, title).not.toContain(unit);
      // An area has no edge, so that one of nothing can't be seen on another.
      if (custom?.stacking?.mode === 'normal') expect(custom.lineWidth, title).toBe(0);
    }
  });

  it('gives the heatmap its unit on its axis, and counts in its cells', () => {
    for (const { title, options, fieldConfig } of panels.filter(({ type }) => type === 'heatmap')) {
      expect(options.yAxis?.unit, title).toBe('s');
      expect(options.cellValues?.unit, title).toBe('locale');
      expect(fieldConfig.defaults.unit, title).toBeUndefined();
      expect(options.legend?.show, title).toBe(true);
    }
  });

  it('names the columns of tables, sorts them, and leaves out the time', () => {
    for (const { title, targets, transformations = [], options, fieldConfig } of panels.filter(
      ({ type }) => type === 'table',
    )) {
      const steps = transformations.map(({ id }) => id);
      expect(steps, title).toEqual([...(targets.length > 1 ? ['merge'] : []), 'organize', 'sortBy']);
      const { renameByName = {}, excludeByName = {} } =
        transformations.find(({ id }) => id === 'organize')?.options ?? {};
      expect(excludeByName.Time, title).toBe(true);
      const names = targets.length === 1 ? ['Value'] : targets.map((_, index) => `Value #${'ABCDEFGHIJKL'[index]}`);
      expect(Object.keys(renameByName), title).toEqual(expect.arrayContaining(names));
      const labels = new Set(targets.flatMap(({ expr }) => parsePromql(expr).groupedBy));
      for (const name of Object.keys(renameByName).filter(name => !names.includes(name))) {
        expect(labels.has(name), `${title}: ${name}`).toBe(true);
      }
      const titles = Object.values(renameByName);
      for (const { displayName } of options.sortBy ?? []) expect(titles, title).toContain(displayName);
      const overridden = fieldConfig.overrides.map(({ matcher }) => matcher.options);
      expect(titles, title).toEqual(expect.arrayContaining(overridden));
      expect(overridden, title).toEqual(expect.arrayContaining(names.map(name => renameByName[name])));
    }
  });

  it('says something where there is nothing to show, and invents no zero', () => {
    for (const { expr } of panels.flatMap(({ targets }) => targets)) expect(expr).not.toMatch(/vector\(/);
    for (const { title, fieldConfig } of panels.filter(({ type }) => type === 'stat' || type === 'table')) {
      expect(fieldConfig.defaults.noValue, title).toMatch(/./);
    }
  });

  it('has colours of names, which both themes have', () => {
    const colours = valuesOf(dashboard, ['color', 'fixedColor', 'iconColor']).filter(
      value => typeof value === 'string',
    );
    expect(colours.length).toBeGreaterThan(50);
    for (const colour of colours) expect(colour).toMatch(NAMED);
  });

  it('links rows and lines of accounts to their dashboards', () => {
    const links = valuesOf(panels, ['links']).flat() as { readonly url: string }[];
    expect(links.length).toBeGreaterThan(5);
    const allowed = Object.values(DASHBOARDS).map(uid => `/d/${uid}?`);
    for (const { url } of links) {
      if (url.startsWith('/d/'))
        expect(url).toMatch(/&var-account=\$\{__(data\.fields\.Account|field\.labels\.account):percentencode\}&/);
      expect(
        allowed.some(start => url.startsWith(start)) || /^\$\{(runbooks:raw\}\/|traces:raw\}$)/.test(url),
        url,
      ).toBe(true);
    }
  });
});

/** The colour that each of the words has in a panel. */
function colourOf({ fieldConfig, title }: Panel, name: string): unknown {
  const colours = fieldConfig.overrides
    .filter(({ matcher }) => matcher.id === 'byRegexp' && new RegExp(matcher.options.slice(1, -1)).test(name))
    .flatMap(({ properties }) => properties.map(({ value }) => value));
  expect(colours.length, `${title}: ${name}`).toBe(1);
  return (colours[0] as { fixedColor: string }).fixedColor;
}

describe('colours', () => {
  const panels = dashboards.flatMap(([, dashboard]) => panelsOf(dashboard));
  const withLegend = (legend: string) =>
    panels.filter(({ targets }) => targets.some(({ legendFormat }) => legendFormat.endsWith(legend)));
  const panel = (title: string) => panels.filter(panel => panel.title === title);

  it.each([
    ['Ended messages', OUTCOMES],
    ['Events by state', EVENT_STATES],
    ['Attempt duration, p95', RESULTS],
    ['Attempts by status class', STATUS_CLASSES],
    ['Requests by outcome', REQUEST_OUTCOMES],
    ['Failure callbacks by state', CALLBACK_STATES],
    ['Left, by reason (1 h)', LEFT_REASONS],
    ['Actions by outcome', FINAL_OUTCOMES],
  ])('%s: each of its words has one, and no two the same unless they mean the same', (title, words) => {
    const [one] = panel(title);
    if (!one) throw new Error(`there is no panel ${title}`);
    const colours = words.map(word => colourOf(one, word));
    expect(new Set(colours).size, JSON.stringify(colours)).toBe(
      new Set(words.map(word => word.replace('cancelled', 'canceled'))).size,
    );
  });

  it('what is well is green, what has failed is red, everywhere', () => {
    for (const each of withLegend('{{outcome}}')) {
      expect([colourOf(each, 'delivered'), colourOf(each, 'failed'), colourOf(each, 'cancelled')]).toEqual([
        'green',
        'red',
        'gray',
      ]);
    }
    for (const each of withLegend('{{state}}')) {
      expect([colourOf(each, 'delivered'), colourOf(each, 'retry'), colourOf(each, 'failed')]).toEqual([
        'green',
        'orange',
        'red',
      ]);
    }
  });

  it('bands say in words which state is well', () => {
    const words = (title: string) => panel(title)[0]?.fieldConfig.defaults.mappings?.[0]?.options;
    expect(words('Rounds')).toMatchObject({ 0: { text: 'failed', color: 'red' }, 1: { text: 'ok', color: 'green' } });
    expect(words('Breakers and pauses')).toMatchObject({ 0: { color: 'green' }, 1: { text: 'stopped', color: 'red' } });
    expect(words('State')).toMatchObject({ 0: { text: 'OK', color: 'green' }, 4: { text: 'CRITICAL', color: 'red' } });
  });

  it('every family of auto-cancel has a panel', () => {
    const shown = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)).join('\n');
    for (const { name } of Object.values(autoCancelFamilies)) expect(shown).toContain(name);
  });
});
