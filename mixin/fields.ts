import { type Link, type Query, UNITS, type Unit } from './panel.ts';

/** What the JSON of all kinds of panels has in common. */

// biome-ignore lint/suspicious/noTemplateCurlyInString: Grafana's own variable.
export const DATASOURCE = { type: 'prometheus', uid: '${datasource}' } as const;

const refId = (index: number) => String.fromCharCode(65 + index);

/** The last value alone, or all in the range that is shown. */
export const INSTANT = { instant: true, range: false, format: 'time_series' } as const;
export const RANGE = { instant: false, range: true, format: 'time_series' } as const;

export const targetsOf = (queries: readonly Query[], how: object) =>
  queries.map(({ expr, legend }, index) => ({
    refId: refId(index),
    datasource: DATASOURCE,
    expr,
    legendFormat: legend,
    ...how,
  }));

/** The name that Grafana gives to the numbers of a table's query. */
export const valueName = (index: number, of: number) => (of === 1 ? 'Value' : `Value #${refId(index)}`);

export const formatOf = (unit: Unit, noValue?: string) => ({
  unit: UNITS[unit].unit,
  ...(UNITS[unit].decimals === undefined ? {} : { decimals: UNITS[unit].decimals }),
  ...(noValue === undefined ? {} : { noValue }),
});

export const linksOf = (links: readonly Link[] = []) =>
  links.length === 0 ? {} : { links: links.map(link => ({ ...link, targetBlank: false })) };
