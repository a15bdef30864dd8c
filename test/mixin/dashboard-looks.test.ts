import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { DASHBOARDS } from '../../mixin/dashboard-links.ts';
import { DELIVERY_RESULTS, STATUS_CLASSES } from '../../src/collectors/events/tally.ts';
import { autoCancelFamilies } from '../../src/metrics/auto-cancel.ts';
import { FINAL_OUTCOMES } from '../../src/model/journal.ts';
import { CALLBACK_STATES, MESSAGE_OUTCOMES } from '../../src/model/message.ts';
import { BUILTIN_KINDS } from '../../src/rules/checks/alerts.ts';
import { REQUEST_OUTCOMES } from '../../src/upstream/errors.ts';
import { parsePromql } from './parse-promql.ts';
import { dashboards, type Panel, panelsOf } from './read-dashboards.ts';

/** Returns all values of these keys at any depth. */
function valuesOf(json: unknown, keys: readonly string[]): unknown[] {
  if (typeof json !== 'object' || json === null) return [];
  return Object.entries(json).flatMap(([key, value]) => [
    ...(keys.includes(key) ? [value] : []),
    ...valuesOf(value, keys),
  ]);
}

/** Named colours of Grafana's palette. Each has a shade for each theme. */
const NAMED = /^((super-light|light|semi-dark|dark)-)?(red|orange|yellow|green|blue|purple)$|^(gray|text|transparent)$/;

const SHOWS_LINES = ['timeseries', 'state-timeline'];
/** Grafana's duration units that show neighbouring axis ticks as the same text. */
const REPEATS_TICKS = ['dtdurations', 'dtdurationms', 'dthms', 'clocks'];

describe.each(dashboards)('panels of the dashboard %s', (_name, dashboard) => {
  const panels = panelsOf(dashboard);

  it('time series and state timelines have a legend and a tooltip with all series', () => {
    for (const { title, options } of panels.filter(({ type }) => SHOWS_LINES.includes(type))) {
      expect(options.legend, title).toMatchObject({ showLegend: true, placement: 'bottom' });
      expect(options.tooltip?.mode, title).toBe('multi');
    }
    for (const { title, options } of panels.filter(({ type }) => type === 'timeseries')) {
      expect(options.tooltip?.sort, title).toBe('desc');
    }
  });

  it('every query has a legend format, except in tables and for single values in stat panels', () => {
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

  it('stat panels show the worst account, never a mean', () => {
    for (const { expr } of panels.filter(({ type }) => type === 'stat').flatMap(({ targets }) => targets)) {
      expect(expr).not.toMatch(/\bavg\b|sum\(.*\) \/ sum\(/s);
    }
  });

  it('graphs select the top ten once for the whole time range', () => {
    for (const { expr, instant } of panels.flatMap(({ targets }) => targets)) {
      if (!/\b(topk|bottomk)\(/.test(expr)) continue;
      if (instant) expect(expr).not.toContain('@ end()');
      else expect(expr).toMatch(/\nand (topk|bottomk)\(10, .*\w+_over_time\(.*\[\$__range\] @ end\(\)\).*\)$/s);
    }
  });

  it('stat and table panels use instant queries, and graphs use range queries', () => {
    for (const { title, type, targets } of panels) {
      const showsLast = ['stat', 'table'].includes(type);
      for (const { instant, range, format } of targets) {
        expect({ instant, range, format }, title).toEqual({
          instant: showsLast,
          range: !showsLast,
          format: type === 'table' || type === 'heatmap' ? type : 'time_series',
        });
      }
    }
  });

  it('graph axes start at zero and have a soft maximum', () => {
    for (const { title, fieldConfig } of panels.filter(({ type }) => type === 'timeseries')) {
      const { min, unit = '', custom } = fieldConfig.defaults;
      expect(min, title).toBe(0);
      expect(custom?.axisSoftMax, title).toBeLessThanOrEqual(1024);
      expect(custom?.axisSoftMax, title).toBeGreaterThan(0);
      expect(REPEATS_TICKS, title).not.toContain(unit);
      // Stacked areas have no border, so that a series of zeros is invisible.
      if (custom?.stacking?.mode === 'normal') expect(custom.lineWidth, title).toBe(0);
    }
  });

  it('heatmaps have a unit on the axis and counts in their cells', () => {
    for (const { title, options, fieldConfig } of panels.filter(({ type }) => type === 'heatmap')) {
      expect(options.yAxis?.unit, title).toBe('s');
      expect(options.cellValues?.unit, title).toBe('locale');
      expect(fieldConfig.defaults.unit, title).toBeUndefined();
      expect(options.legend?.show, title).toBe(true);
    }
  });

  it('tables name their columns, sort them and hide the time', () => {
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
      const labels = new Set(
        targets.flatMap(({ expr }) => [
          ...parsePromql(expr).groupedBy,
          ...Array.from(expr.matchAll(/^label_replace\(.*, "(\w+)", "\$1", /gs), ([, label = '']) => label),
        ]),
      );
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

  it('stat and table panels show text instead of zero if data is missing', () => {
    for (const { expr } of panels.flatMap(({ targets }) => targets)) expect(expr).not.toMatch(/vector\(/);
    for (const { title, fieldConfig } of panels.filter(({ type }) => type === 'stat' || type === 'table')) {
      expect(fieldConfig.defaults.noValue, title).toMatch(/./);
    }
  });

  it('panels use only named colours, which work in both themes', () => {
    const colours = valuesOf(dashboard, ['color', 'fixedColor', 'iconColor']).filter(
      value => typeof value === 'string',
    );
    expect(colours.length).toBeGreaterThan(50);
    for (const colour of colours) expect(colour).toMatch(NAMED);
  });

  it('links in panels open a dashboard for the account of the row or series, or a configured address', () => {
    const links = valuesOf(panels, ['links']).flat() as { readonly url: string }[];
    expect(links.length).toBeGreaterThan(1);
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

/** Returns the colour of a series name in a panel. */
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
    ['Ended messages', MESSAGE_OUTCOMES],
    ['Attempt duration, p95', DELIVERY_RESULTS],
    ['Attempts by status class', STATUS_CLASSES],
    ['Requests by outcome', REQUEST_OUTCOMES],
    ['Failure callbacks by state', CALLBACK_STATES],
    ['Actions by outcome', FINAL_OUTCOMES],
  ])('every name in the panel "%s" has a different colour, except for synonyms', (title, words) => {
    const [one] = panel(title);
    if (!one) throw new Error(`there is no panel ${title}`);
    const colours = words.map(word => colourOf(one, word));
    expect(new Set(colours).size, JSON.stringify(colours)).toBe(
      new Set(words.map(word => word.replace('cancelled', 'canceled'))).size,
    );
  });

  it('delivered is green, failed is red and cancelled is gray on every panel', () => {
    for (const each of withLegend('{{outcome}}')) {
      expect([colourOf(each, 'delivered'), colourOf(each, 'failed'), colourOf(each, 'cancelled')]).toEqual([
        'green',
        'red',
        'gray',
      ]);
    }
  });

  const mappingsOf = (column: string) =>
    panel('Problems')[0]
      ?.fieldConfig.overrides.find(({ matcher }) => matcher.options === column)
      ?.properties.find(({ id }) => id === 'mappings')?.value as [
      { readonly options: Readonly<Record<string, { readonly text: string }>> },
    ];

  it('the table of problems names the runbook of every kind', () => {
    const texts = Object.entries(mappingsOf('Runbook')[0].options).map(([kind, { text }]) => [kind, text]);
    expect(texts.sort()).toEqual(BUILTIN_KINDS.map(({ kind, alert }) => [kind, alert]).sort());
    for (const [, alert] of texts) expect(existsSync(`docs/runbooks/${alert}.md`), alert).toBe(true);
  });

  it('state timelines have a text and a colour for each state', () => {
    const words = (title: string) => panel(title)[0]?.fieldConfig.defaults.mappings?.[0]?.options;
    expect(words('Rounds')).toMatchObject({ 0: { text: 'failed', color: 'red' }, 1: { text: 'ok', color: 'green' } });
    expect(mappingsOf('Severity')).toMatchObject([
      { options: { 2: { text: 'warning', color: 'orange' }, 3: { text: 'critical', color: 'red' } } },
    ]);
    expect(words('State')).toMatchObject({ 0: { text: 'OK', color: 'green' }, 2: { text: 'CRITICAL', color: 'red' } });
  });

  it('the table of leader and standbys counts only failed renewals', () => {
    const renewals = panel('Leader and standbys')[0]?.targets.find(({ expr }) => expr.includes('_renewals_total'));
    expect(renewals?.expr).toContain('outcome="failed"');
  });

  it('every auto-cancel metric appears in a panel', () => {
    const shown = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)).join('\n');
    for (const { name } of Object.values(autoCancelFamilies)) expect(shown).toContain(name);
  });
});
