import {
  BigValueColorMode,
  BigValueGraphMode,
  GraphThresholdsStyleConfigBuilder,
  GraphThresholdsStyleMode,
  ReduceDataOptionsBuilder,
  StackingConfigBuilder,
  StackingMode,
} from '@grafana/grafana-foundation-sdk/common';
import {
  AnnotationQueryBuilder,
  type Dashboard,
  DashboardBuilder,
  DashboardCursorSync,
  DashboardLinkBuilder,
  DashboardLinkType,
  DatasourceVariableBuilder,
  FieldColorBuilder,
  FieldColorModeId,
  QueryVariableBuilder,
  RowBuilder,
  ThresholdsConfigBuilder,
  ThresholdsMode,
  VariableRefresh,
  VariableSort,
} from '@grafana/grafana-foundation-sdk/dashboard';
import { PanelBuilder as Heatmap } from '@grafana/grafana-foundation-sdk/heatmap';
import { DataqueryBuilder, PromQueryFormat } from '@grafana/grafana-foundation-sdk/prometheus';
import { PanelBuilder as Stat } from '@grafana/grafana-foundation-sdk/stat';
import { PanelBuilder as StateTimeline } from '@grafana/grafana-foundation-sdk/statetimeline';
import { PanelBuilder as Table } from '@grafana/grafana-foundation-sdk/table';
import { PanelBuilder as TimeSeries } from '@grafana/grafana-foundation-sdk/timeseries';
import { autoCancelFamilies } from '../metrics/auto-cancel.ts';
import { agentDashboard } from './agent-dashboard.ts';
import { DASHBOARDS } from './alert.ts';
import { dlqDashboard } from './dlq-dashboard.ts';
import { overview } from './overview.ts';
import { chosen, ofAgent, type PanelSpec, type RowSpec } from './panel.ts';

interface DashboardSpec {
  readonly title: string;
  readonly description: string;
  readonly rows: readonly RowSpec[];
}

/** Every dashboard there is. */
export const dashboardSpecs: Readonly<Record<keyof typeof DASHBOARDS, DashboardSpec>> = {
  overview: {
    title: 'Delivery / Overview',
    description: 'Deliveries: rate, errors, duration, saturation.',
    rows: overview,
  },
  dlq: {
    title: 'Delivery / Dead letters and failure callbacks',
    description: 'Permanently failed messages, their failure callbacks, and auto-cancel.',
    rows: dlqDashboard,
  },
  agent: {
    title: 'Delivery / Agent and API',
    description: 'Freshness of the data, cost in API requests, health of the agent.',
    rows: agentDashboard,
  },
};

// biome-ignore lint/suspicious/noTemplateCurlyInString: Grafana's own variable.
const DATASOURCE = { type: 'prometheus', uid: '${datasource}' };

/** What means the same has the same colour everywhere. */
const COLOURS: Readonly<Record<string, string>> = {
  delivered: 'green',
  success: 'green',
  ok: 'green',
  created: 'blue',
  active: 'light-blue',
  retry: 'orange',
  in_progress: 'orange',
  error: 'light-red',
  failed: 'red',
  fail: 'red',
  cancel_requested: '#9e9e9e',
  cancelled: '#757575',
  canceled: '#757575',
};

const GRID = 24;
const STAT_HEIGHT = 4;
const GRAPH_HEIGHT = 8;

function thresholds({ warning, critical }: NonNullable<PanelSpec['thresholds']>) {
  const isFalling = warning > critical;
  const colours = isFalling ? ['red', 'orange', 'green'] : ['green', 'orange', 'red'];
  const bounds = isFalling ? [null, critical, warning] : [null, warning, critical];
  const steps = colours.map((color, index) => ({ value: bounds[index] ?? null, color }));
  return new ThresholdsConfigBuilder().mode(ThresholdsMode.Absolute).steps(steps);
}

function panelOf(kind: PanelSpec['kind']) {
  if (kind === 'heatmap') return new Heatmap().calculate(false).height(GRAPH_HEIGHT);
  if (kind === 'table') return new Table().height(GRAPH_HEIGHT);
  if (kind === 'states') return new StateTimeline().height(GRAPH_HEIGHT);
  if (kind === 'stat')
    return new Stat()
      .height(STAT_HEIGHT)
      .colorMode(BigValueColorMode.Value)
      .graphMode(BigValueGraphMode.None)
      .reduceOptions(new ReduceDataOptionsBuilder().calcs(['lastNotNull']));
  const graph = new TimeSeries().height(GRAPH_HEIGHT).axisSoftMin(0);
  return kind === 'stack'
    ? graph.fillOpacity(30).stacking(new StackingConfigBuilder().mode(StackingMode.Normal))
    : graph;
}

function toPanel(spec: PanelSpec, width: number) {
  const { kind, title, description, unit = 'short', queries } = spec;
  const panel = panelOf(kind).title(title).description(description).unit(unit).span(width).datasource(DATASOURCE);
  queries.forEach(({ expr, legend }, index) => {
    const query = new DataqueryBuilder()
      .refId(String.fromCharCode(65 + index))
      .datasource(DATASOURCE)
      .expr(expr)
      .legendFormat(legend);
    if (kind === 'table') query.instant().format(PromQueryFormat.Table);
    else if (kind === 'stat') query.instant();
    else query.range();
    if (kind === 'heatmap') query.format(PromQueryFormat.Heatmap).exemplar(true);
    panel.withTarget(query);
  });
  if (spec.thresholds) panel.thresholds(thresholds(spec.thresholds));
  else if (kind === 'stat') panel.colorScheme(new FieldColorBuilder().mode(FieldColorModeId.Fixed).fixedColor('text'));
  if (spec.thresholds && panel instanceof TimeSeries)
    panel.thresholdsStyle(new GraphThresholdsStyleConfigBuilder().mode(GraphThresholdsStyleMode.Dashed));
  if (panel instanceof TimeSeries && queries.some(({ legend }) => /\{\{(outcome|state|result)\}\}$/.test(legend))) {
    for (const [name, fixedColor] of Object.entries(COLOURS))
      panel.overrideByName(name, [{ id: 'color', value: { mode: 'fixed', fixedColor } }]);
  }
  return panel;
}

const label = (name: string, title: string, query: string) =>
  new QueryVariableBuilder(name)
    .label(title)
    .datasource(DATASOURCE)
    .query({ query, refId: name })
    .refresh(VariableRefresh.OnTimeRangeChanged)
    .sort(VariableSort.NaturalAsc)
    .multi(true)
    .includeAll(true)
    .allValue('.+')
    .current({ selected: true, text: ['All'], value: ['$__all'] });

const ANY = '{__name__=~"delivery_up|delivery_watch_build_info"';
const variables = [
  new DatasourceVariableBuilder('datasource').label('Data source').type('prometheus'),
  label('job', 'Job', `label_values(${ANY}}, job)`),
  label('instance', 'Instance', `label_values(${ANY}, job=~"$job"}, instance)`),
  label('account', 'Account', 'label_values(delivery_up{job=~"$job", instance=~"$instance"}, account)'),
];

const annotation = (name: string, iconColor: string, expr: string, titleFormat: string) =>
  new AnnotationQueryBuilder()
    .name(name)
    .datasource(DATASOURCE)
    .enable(true)
    .iconColor(iconColor)
    .expr(expr)
    .titleFormat(titleFormat);

const { actions, breakerOpen } = autoCancelFamilies;
const annotations = [
  // The time is the value, so that a start is one mark and not one at every step.
  annotation(
    'Agent started',
    'blue',
    `${ofAgent('process_start_time_seconds')} * 1000`,
    '{{instance}} started',
  ).useValueForTime(true),
  annotation(
    'Cancels',
    'purple',
    `sum by (account, rule) (increase(${chosen(actions, { outcome: /confirmed|accepted_unverified/ })}[$__rate_interval])) > 0`,
    '{{account}}: {{rule}} cancelled',
  ),
  annotation(
    'Breaker open',
    'red',
    `max by (account, breaker) (${chosen(breakerOpen)}) == 1`,
    '{{account}}: breaker {{breaker}}',
  ),
];

const links = Object.entries(dashboardSpecs).map(([name, { title }]) =>
  new DashboardLinkBuilder(title)
    .type(DashboardLinkType.Link)
    .url(`/d/${DASHBOARDS[name as keyof typeof DASHBOARDS]}`)
    .includeVars(true)
    .keepTime(true),
);

/** One dashboard as Grafana reads it. */
export function toDashboard(name: keyof typeof DASHBOARDS): Dashboard {
  const { title, description, rows } = dashboardSpecs[name];
  const dashboard = new DashboardBuilder(title)
    .uid(DASHBOARDS[name])
    .description(description)
    .tags(['delivery-watch'])
    .readonly()
    .tooltip(DashboardCursorSync.Crosshair)
    .refresh('1m')
    .time({ from: 'now-6h', to: 'now' })
    .timezone('browser')
    .variables(variables)
    .annotations(annotations)
    .links(links);
  for (const { title, isCollapsed = false, panels } of rows) {
    const row = new RowBuilder(title).collapsed(isCollapsed);
    const built = panels.map(spec => toPanel(spec, spec.kind === 'stat' ? GRID / panels.length : GRID / 2));
    if (isCollapsed) for (const panel of built) row.withPanel(panel);
    dashboard.withRow(row);
    if (!isCollapsed) for (const panel of built) dashboard.withPanel(panel);
  }
  const json = dashboard.build();
  // Older Grafanas ignore the place where the builder puts them, newer ones hide them in a menu.
  for (const each of [...(json.links ?? []), ...(json.annotations?.list ?? [])]) delete each.placement;
  // Two panels are never of one number, not even in rows.
  let id = 0;
  for (const panel of json.panels ?? []) {
    panel.id = ++id;
    for (const inside of 'panels' in panel ? (panel.panels ?? []) : []) inside.id = ++id;
  }
  return json;
}
