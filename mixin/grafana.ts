import type { Builder } from '@grafana/grafana-foundation-sdk/cog';
import { type DashboardLink, DashboardLinkBuilder } from '@grafana/grafana-foundation-sdk/dashboard';
import { DataqueryBuilder, PromQueryFormat } from '@grafana/grafana-foundation-sdk/prometheus';
import { type PanelLink, type Query, UNITS, type Unit } from './panel.ts';

/** Parts that all panels have in common. */

// biome-ignore lint/suspicious/noTemplateCurlyInString: Grafana's own variable.
export const DATASOURCE = { type: 'prometheus', uid: '${datasource}' } as const;

/** Sets fields for which the SDK's builder has no method. A value of undefined removes the SDK's default. */
export const withFields = <T extends object>(
  builder: Builder<T>,
  fields: { readonly [K in keyof T]?: T[K] | undefined },
): Builder<T> => ({ build: () => ({ ...builder.build(), ...fields }) as T });

const refId = (index: number) => String.fromCharCode(65 + index);

const queryOf = ({ expr, legend }: Query, index: number, format: PromQueryFormat) =>
  new DataqueryBuilder().refId(refId(index)).datasource(DATASOURCE).expr(expr).legendFormat(legend).format(format);

/** Returns queries for the last value. */
export const instant = (queries: readonly Query[], format = PromQueryFormat.TimeSeries) =>
  queries.map((query, index) => queryOf(query, index, format).instant());

/** Returns queries for all values in the selected time range. */
export const overTime = (queries: readonly Query[], format = PromQueryFormat.TimeSeries) =>
  queries.map((query, index) => queryOf(query, index, format).range());

/** Returns the name that Grafana gives to the value column of a table's query. */
export const valueName = (index: number, of: number) => (of === 1 ? 'Value' : `Value #${refId(index)}`);

export const formatOf = (unit: Unit, noValue?: string) => ({
  unit: UNITS[unit].unit,
  ...(UNITS[unit].decimals === undefined ? {} : { decimals: UNITS[unit].decimals }),
  ...(noValue === undefined ? {} : { noValue }),
});

/** Returns builders of links without the SDK's default placement, which is in the menu. */
export const dashboardLinks = (links: readonly PanelLink[]): readonly Builder<DashboardLink>[] =>
  links.map(({ title, url }) => withFields(new DashboardLinkBuilder(title).url(url), { placement: undefined }));
