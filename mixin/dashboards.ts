import {
  AnnotationQueryBuilder,
  ConstantVariableBuilder,
  type Dashboard,
  DashboardBuilder,
  DashboardCursorSync,
  DatasourceVariableBuilder,
  QueryVariableBuilder,
  RowBuilder,
  VariableHide,
  VariableRefresh,
  VariableSort,
} from '@grafana/grafana-foundation-sdk/dashboard';
import { autoCancelFamilies } from '../src/metrics/auto-cancel.ts';
import { agentDashboard } from './agent-dashboard.ts';
import { DASHBOARDS, toAll } from './dashboard-links.ts';
import { dlqDashboard } from './dlq-dashboard.ts';
import { DATASOURCE, withFields } from './grafana.ts';
import { overviewDashboard } from './overview.ts';
import type { PanelSpec, RowSpec } from './panel.ts';
import { panelBuilder } from './panel-builders.ts';
import { placeholder } from './placeholder.ts';
import { blind, chosen, ofAgent, problems } from './queries.ts';

interface DashboardSpec {
  readonly title: string;
  readonly description: string;
  readonly rows: readonly RowSpec[];
}

export const dashboardSpecs: Readonly<Record<keyof typeof DASHBOARDS, DashboardSpec>> = {
  overview: {
    title: 'Delivery / Overview',
    description: 'Current problems, then rate, errors, duration and saturation of deliveries.',
    rows: overviewDashboard,
  },
  dlq: {
    title: 'Delivery / Dead letters and failure callbacks',
    description: 'Permanently failed messages, their failure callbacks, and auto-cancel.',
    rows: dlqDashboard,
  },
  agent: {
    title: 'Delivery / Agent and API',
    description: 'Freshness of data, API requests, and health of the agent.',
    rows: agentDashboard,
  },
};

const labelVariable = (name: string, label: string, query: string, text = 'All', value = '$__all') =>
  new QueryVariableBuilder(name)
    .label(label)
    .datasource(DATASOURCE)
    .query({ query, refId: name })
    .definition(query)
    .refresh(VariableRefresh.OnTimeRangeChanged)
    .sort(VariableSort.NaturalAsc)
    .multi(true)
    .includeAll(true)
    .allValue('.+')
    .current({ selected: true, text: [text], value: [value] })
    .hide(VariableHide.DontHide);

/**
 * Returns a hidden constant variable that contains the base URL of links. It can be changed in the dashboard's settings, but
 * not by the page's URL.
 */
function addressVariable(name: 'runbooks' | 'traces', label: string) {
  const address = placeholder(name);
  return withFields(new ConstantVariableBuilder(name).label(label).value(address), {
    current: { selected: true, text: address, value: address },
    skipUrlSync: true,
  });
}

const ANY = '{__name__=~"delivery_up|delivery_watch_build_info"';
const variables = [
  new DatasourceVariableBuilder('datasource').label('Data source').type('prometheus').hide(VariableHide.DontHide),
  labelVariable('job', 'Job', `label_values(${ANY}}, job)`, placeholder('selectedJobText'), placeholder('selectedJob')),
  labelVariable('instance', 'Instance', `label_values(${ANY}, job=~"$job"}, instance)`),
  labelVariable('account', 'Account', 'label_values(delivery_up{job=~"$job", instance=~"$instance"}, account)'),
  addressVariable('runbooks', 'Folder of the runbooks'),
  addressVariable('traces', 'Search of traces'),
];

const annotation = (
  name: string,
  iconColor: string,
  expr: string,
  titleFormat: string,
  { isEnabled = true, useValueForTime = false } = {},
) =>
  withFields(
    new AnnotationQueryBuilder()
      .name(name)
      .datasource(DATASOURCE)
      .enable(isEnabled)
      .hide(false)
      .iconColor(iconColor)
      .expr(expr)
      .titleFormat(titleFormat)
      .step('60s')
      .useValueForTime(useValueForTime),
    // Show the annotation's switch above the panels instead of in a menu (the SDK's default).
    { placement: undefined },
  );

/** Marks each event once, at the time that is the value of the query, instead of at every step. */
const AT_VALUE = { useValueForTime: true };
const annotations = [
  // Too many marks would hide the lines, so some annotations are off by default.
  annotation('Critical problems', 'red', problems('critical'), '{{account}}: {{kind}} {{subject}}', {
    isEnabled: false,
  }),
  annotation('Stale data', 'dark-red', `${blind} == 1`, 'No current data of {{account}}'),
  annotation(
    'Cancels',
    'purple',
    `sum by (account, rule) (increase(${chosen(autoCancelFamilies.actions, { outcome: /confirmed|accepted_unverified/ })}[$__interval])) > 0`,
    '{{account}}: {{rule}} cancelled',
    { isEnabled: false },
  ),
  annotation('Starts', 'blue', `${ofAgent('process_start_time_seconds')} * 1000`, '{{instance}} started', AT_VALUE),
  annotation(
    'Configurations',
    'light-blue',
    `${ofAgent('delivery_watch_config_last_reload_success_timestamp_seconds')} * 1000`,
    '{{instance}} loaded its configuration',
    AT_VALUE,
  ),
];

const COLUMNS = 24;
const SIZES = {
  stat: { w: 4, h: 4 },
  graph: { w: 12, h: 8 },
} as const;

/** Arranges the panels of a row in lines. The last panel of each line takes the remaining width. */
function inLines(panels: readonly PanelSpec[], top: number) {
  const sizes = panels.map(({ kind, width, height }) => {
    const { w, h } = SIZES[kind === 'stat' ? 'stat' : 'graph'];
    return { w: width ?? w, h: height ?? h };
  });
  let [x, y] = [0, top];
  const placed = panels.map((spec, index) => {
    const { w, h } = sizes[index] ?? SIZES.graph;
    const next = sizes[index + 1];
    const isLast = next === undefined || x + w + next.w > COLUMNS;
    const panel = panelBuilder(spec).gridPos({ x, y, w: isLast ? COLUMNS - x : w, h });
    if (isLast) [x, y] = [0, y + h];
    else x += w;
    return panel;
  });
  return { placed, bottom: y };
}

function addRows(dashboard: DashboardBuilder, rows: readonly RowSpec[]): void {
  let [id, y] = [0, 0];
  for (const { title, isCollapsed = false, panels } of rows) {
    const row = new RowBuilder(title).id(++id).collapsed(isCollapsed).gridPos({ x: 0, y, w: COLUMNS, h: 1 });
    const { placed, bottom } = inLines(panels, y + 1);
    for (const panel of placed) panel.id(++id);
    // Panels of a collapsed row take no space until it is opened.
    y = isCollapsed ? y + 1 : bottom;
    if (isCollapsed) for (const panel of placed) row.withPanel(panel);
    dashboard.withRow(row);
    if (!isCollapsed) for (const panel of placed) dashboard.withPanel(panel);
  }
}

const PANEL_NAMES: Readonly<Record<string, string>> = {
  heatmap: 'Heatmap',
  stat: 'Stat',
  'state-timeline': 'State timeline',
  table: 'Table',
  timeseries: 'Time series',
};

/**
 * Returns the fields that Grafana adds to an exported dashboard, and that grafana.com requires. `__inputs` is empty, because
 * provisioning from files does not replace inputs. The variable `datasource` selects the data source instead.
 */
function exportFields({ panels = [] }: Dashboard) {
  const inRows = panels.flatMap(panel => ('panels' in panel ? panel.panels : [panel]));
  const types = [...new Set(inRows.map(({ type }) => type))].sort();
  return {
    __inputs: [],
    __elements: {},
    __requires: [
      { type: 'grafana', id: 'grafana', name: 'Grafana', version: '12.0.0' },
      { type: 'datasource', id: 'prometheus', name: 'Prometheus', version: '1.0.0' },
      ...types.map(type => ({ type: 'panel', id: type, name: PANEL_NAMES[type], version: '' })),
    ],
  };
}

function buildDashboard(name: keyof typeof DASHBOARDS): object {
  const { title, description, rows } = dashboardSpecs[name];
  const dashboard = new DashboardBuilder(title)
    .uid(DASHBOARDS[name])
    .description(description)
    .tags(['delivery-watch'])
    .editable()
    .tooltip(DashboardCursorSync.Crosshair)
    .refresh('1m')
    .time({ from: 'now-6h', to: 'now' })
    .timezone('browser')
    .variables(variables)
    .annotations(annotations)
    .links(toAll);
  addRows(dashboard, rows);
  const built = dashboard.build();
  return { ...exportFields(built), ...built };
}

const names = Object.keys(DASHBOARDS) as (keyof typeof DASHBOARDS)[];

/** JSON of all dashboards, by file name. It contains placeholders. */
export const dashboardsTemplate = JSON.stringify(
  Object.fromEntries(names.map(name => [`${name}.json`, buildDashboard(name)])),
);
