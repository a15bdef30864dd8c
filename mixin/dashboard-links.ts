import { DashboardLinkBuilder } from '@grafana/grafana-foundation-sdk/dashboard';
import { withFields } from './grafana.ts';
import type { PanelLink } from './panel.ts';
import { placeholder } from './placeholder.ts';

/** Uids of the dashboards. They are fixed, so that links remain valid. */
export const DASHBOARDS = {
  overview: 'delivery-watch-overview',
  dlq: 'delivery-watch-dlq',
  agent: 'delivery-watch-agent',
} as const;

type Name = keyof typeof DASHBOARDS;

/** Query parameters with which links pass on the selected variables. */
const CHOSEN = ['datasource', 'job', 'instance'].map(name => `\${${name}:queryparam}`).join('&');
// biome-ignore lint/suspicious/noTemplateCurlyInString: Grafana's own variable.
const RANGE = '${__url_time_range}';

const TITLES: Readonly<Record<Name, string>> = {
  overview: 'Overview',
  dlq: 'Dead letters',
  agent: 'Agent and API',
};

const addressOf = (name: Name) => `${placeholder('grafana')}/d/${DASHBOARDS[name]}`;

/**
 * Returns a link to a dashboard for the account of a row or series. `account`: Grafana variable that contains the account's
 * name.
 */
function toDashboard(name: Name, account: string): PanelLink {
  return {
    title: `${TITLES[name]} of \${${account}}`,
    url: `${addressOf(name)}?${CHOSEN}&var-account=\${${account}:percentencode}&${RANGE}`,
  };
}

/** Returns the links of a table's column `Account`. */
export const ofRow = (...names: readonly Name[]): readonly PanelLink[] =>
  names.map(name => toDashboard(name, '__data.fields.Account'));

/** Returns the links of a series with the label `account`. */
export const ofSeries = (...names: readonly Name[]): readonly PanelLink[] =>
  names.map(name => toDashboard(name, '__field.labels.account'));

/** Links to all dashboards. They keep the selected variables and the time range. */
export const toAll = (Object.keys(DASHBOARDS) as Name[]).map(name =>
  withFields(
    new DashboardLinkBuilder(TITLES[name]).url(addressOf(name)).icon('dashboard').includeVars(true).keepTime(true),
    { placement: undefined },
  ),
);

/** Link from a cell that contains the name of an alert to the runbook of this alert. */
export const RUNBOOK: PanelLink = {
  title: 'Runbook',
  // biome-ignore lint/suspicious/noTemplateCurlyInString: Grafana's own variables.
  url: '${runbooks:raw}/${__value.text}.md',
};

/** Link to a trace search. Users configure its address. */
// biome-ignore lint/suspicious/noTemplateCurlyInString: Grafana's own variable.
export const TRACES: PanelLink = { title: 'Search traces', url: '${traces:raw}' };
