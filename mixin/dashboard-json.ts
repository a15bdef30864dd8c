import { highestOf } from '../src/alerts/promql.ts';
import { autoCancelFamilies } from '../src/metrics/auto-cancel.ts';
import { ownFamilies } from '../src/metrics/own.ts';
import { agentDashboard } from './agent-dashboard.ts';
import { DASHBOARDS } from './alert.ts';
import { toAll } from './dashboard-links.ts';
import { dlqDashboard } from './dlq-dashboard.ts';
import { DATASOURCE } from './fields.ts';
import { overview } from './overview.ts';
import type { PanelSpec, RowSpec } from './panel.ts';
import { panelJson } from './panel-json.ts';
import { placeholder } from './placeholder.ts';
import { chosen, ofAgent } from './queries.ts';

interface DashboardSpec {
  readonly title: string;
  readonly description: string;
  readonly rows: readonly RowSpec[];
}

export const dashboardSpecs: Readonly<Record<keyof typeof DASHBOARDS, DashboardSpec>> = {
  overview: {
    title: 'Delivery / Overview',
    description: 'Is it all right, and if not, where? Then rate, errors, time, saturation of deliveries.',
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

const labelVariable = (name: string, label: string, query: string, text = 'All', value = '$__all') => ({
  type: 'query',
  name,
  label,
  datasource: DATASOURCE,
  query: { query, refId: name },
  definition: query,
  refresh: 2,
  sort: 7,
  multi: true,
  includeAll: true,
  allValue: '.+',
  current: { selected: true, text: [text], value: [value] },
  hide: 0,
});

/** An address that links begin with: not shown, and changed in the settings of the dashboard. */
const addressVariable = (name: 'runbooks' | 'traces', label: string, query = placeholder(name)) => ({
  type: 'constant',
  name,
  label,
  query,
  current: { selected: true, text: query, value: query },
  hide: 2,
  skipUrlSync: true,
});

const ANY = '{__name__=~"delivery_up|delivery_watch_build_info"';
const variables = [
  {
    type: 'datasource',
    name: 'datasource',
    label: 'Data source',
    query: 'prometheus',
    refresh: 1,
    hide: 0,
    current: {},
  },
  labelVariable('job', 'Job', `label_values(${ANY}}, job)`, placeholder('selectedJobText'), placeholder('selectedJob')),
  labelVariable('instance', 'Instance', `label_values(${ANY}, job=~"$job"}, instance)`),
  labelVariable('account', 'Account', 'label_values(delivery_up{job=~"$job", instance=~"$instance"}, account)'),
  addressVariable('runbooks', 'Folder of the runbooks'),
  addressVariable('traces', 'Search of traces'),
];

const annotation = (name: string, iconColor: string, expr: string, titleFormat: string, useValueForTime = false) => ({
  name,
  datasource: DATASOURCE,
  enable: true,
  hide: false,
  iconColor,
  expr,
  titleFormat,
  step: '60s',
  ...(useValueForTime ? { useValueForTime: 'on' } : {}),
});

const ALERTS = 'alertname=~"Delivery.*", severity="critical", job=~"$job|", account=~"$account|"';
const stale = chosen(ownFamilies.dataStale, { collector: 'events' });
const annotations = [
  // Where an alert that pages became active, and not as long as it fires: many marks would hide the lines.
  annotation(
    'Alerts',
    'red',
    `1000 * max by (alertname, severity) (ALERTS_FOR_STATE{${ALERTS}} and ignoring (alertstate) ALERTS{${ALERTS}, alertstate="firing"})`,
    '{{severity}}: {{alertname}}',
    true,
  ),
  annotation(
    'Catching up',
    'orange',
    `count(${highestOf(`max_over_time(${stale}[10m])`)} == 1 unless ${highestOf(stale)} == 1)`,
    'Catching up: rates include what happened while the agent was blind',
  ),
  annotation(
    'Blind',
    'dark-red',
    `count by (collector) (${highestOf(chosen(ownFamilies.dataStale), ['collector', 'round'])} == 1)`,
    'Blind: {{collector}} reads nothing in some account',
  ),
  annotation(
    'Cancels',
    'purple',
    `sum by (account, rule) (increase(${chosen(autoCancelFamilies.actions, { outcome: /confirmed|accepted_unverified/ })}[$__rate_interval])) > 0`,
    '{{account}}: {{rule}} cancelled',
  ),
  // The time is the value, so that a start is one mark and not one at every step.
  annotation('Starts', 'blue', `${ofAgent('process_start_time_seconds')} * 1000`, '{{instance}} started', true),
  annotation(
    'Configurations',
    'light-blue',
    `${ofAgent('delivery_watch_config_last_reload_success_timestamp_seconds')} * 1000`,
    '{{instance}} loaded its configuration',
    true,
  ),
];

const COLUMNS = 24;
const SIZES = {
  stat: { w: 4, h: 4 },
  graph: { w: 12, h: 8 },
} as const;

/** Panels of a row in lines without a hole: the last of a line takes what is left. */
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
    const gridPos = { x, y, w: isLast ? COLUMNS - x : w, h };
    if (isLast) [x, y] = [0, y + h];
    else x += w;
    return { ...panelJson(spec), gridPos };
  });
  return { placed, bottom: y };
}

function panelsOf(rows: readonly RowSpec[]) {
  let [id, y] = [0, 0];
  return rows.flatMap(({ title, isCollapsed = false, panels }): readonly object[] => {
    const row = { id: ++id, type: 'row', title, collapsed: isCollapsed, gridPos: { x: 0, y, w: COLUMNS, h: 1 } };
    const { placed, bottom } = inLines(panels, y + 1);
    const numbered = placed.map(panel => ({ id: ++id, ...panel }));
    // Panels of a collapsed row take no place until it is opened.
    y = isCollapsed ? y + 1 : bottom;
    return isCollapsed ? [{ ...row, panels: numbered }] : [{ ...row, panels: [] }, ...numbered];
  });
}

function toDashboard(name: keyof typeof DASHBOARDS) {
  const { title, description, rows } = dashboardSpecs[name];
  const links = toAll.map(({ title, url }) => ({
    title,
    type: 'link',
    url,
    includeVars: true,
    keepTime: true,
    targetBlank: false,
    asDropdown: false,
    tags: [],
    icon: 'dashboard',
    tooltip: '',
  }));
  return {
    uid: DASHBOARDS[name],
    title,
    description,
    tags: ['delivery-watch'],
    schemaVersion: 39,
    editable: true,
    graphTooltip: 1,
    refresh: '1m',
    time: { from: 'now-6h', to: 'now' },
    timezone: 'browser',
    fiscalYearStartMonth: 0,
    templating: { list: variables },
    annotations: { list: annotations },
    links,
    panels: panelsOf(rows),
  };
}

const names = Object.keys(DASHBOARDS) as (keyof typeof DASHBOARDS)[];

/** All dashboards with placeholders, by file name, as JSON. */
export const dashboardsTemplate = JSON.stringify(
  Object.fromEntries(names.map(name => [`${name}.json`, toDashboard(name)])),
);
