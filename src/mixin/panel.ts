import { highestOf, type Matchers, series } from '../alerts/promql.ts';
import type { Family } from '../metrics/family.ts';
import { createProcessMetrics } from '../metrics/process.ts';

/** One query of a panel. */
export interface Query {
  readonly expr: string;
  /** Grafana's legend format; empty for the only series. */
  readonly legend: string;
}

/** Grafana's identifiers of the units that the panels use. */
type Unit = 'short' | 'percentunit' | 's' | 'dtdurations' | 'cps' | 'reqps' | 'Bps' | 'bytes' | 'bool';

export interface PanelSpec {
  /** Default `graph`, lines over time. `stat` one number; `stack` areas that add up; `states` bands of 0 and 1; `table` the latest values. */
  readonly kind?: 'stat' | 'graph' | 'stack' | 'states' | 'table' | 'heatmap';
  readonly title: string;
  /** The question that the panel answers, and how to read it. */
  readonly description: string;
  /** Default `short`: a plain number. */
  readonly unit?: Unit;
  readonly queries: readonly Query[];
  /** Where it turns amber and red, or, upside down, green. */
  readonly thresholds?: { readonly warning: number; readonly critical: number };
}

export interface RowSpec {
  readonly title: string;
  readonly isCollapsed?: boolean;
  readonly panels: readonly PanelSpec[];
}

const { source } = createProcessMetrics({ version: '', configHash: '', configLoadedAt: 0, endpoints: [] });
/** Families of the agent itself; prom-client makes them, so there are no objects to name. */
export const agentFamilies = source.families;

/** One of them. Throws when there is none. */
function agentFamily(name: string): Family {
  const family = agentFamilies.find(family => family.name === name);
  if (!family) throw new RangeError(`the agent has no family ${name}`);
  return family;
}

type Suffix = '' | '_bucket' | '_sum' | '_count';

/** Series about the chosen accounts, of the chosen jobs and instances. */
export const chosen = <L extends string>(family: Family<L>, where: Matchers<L> = {}, suffix: Suffix = '') =>
  series(family, { job: /$job/, instance: /$instance/, account: /$account/, ...where } as Matchers<L>, suffix);

/** Series of the agent itself. */
export const ofAgent = (name: string, where: Matchers = {}, suffix: Suffix = '') =>
  series(agentFamily(name), { job: /$job/, instance: /$instance/, ...where }, suffix);

const labelsOf = ({ labels }: Family, suffix: Suffix) => (suffix === '_bucket' ? [...labels, 'le'] : labels);
const by = (labels: readonly string[]) => (labels.length === 0 ? 'sum' : `sum by (${labels.join(', ')})`);

/** A gauge, added up but for the labels that are kept. */
export const level = <L extends string>(
  family: Family<L>,
  keep: readonly (L | 'account')[] = [],
  where?: Matchers<L>,
) => `${by(keep)} (${highestOf(chosen(family, where), family.labels)})`;

/** How fast a counter rises a second. */
export const flow = <L extends string>(
  family: Family<L>,
  keep: readonly (L | 'account' | 'le')[] = [],
  where?: Matchers<L>,
  suffix: Suffix = '',
) => `${by(keep)} (${highestOf(`rate(${chosen(family, where, suffix)}[$__rate_interval])`, labelsOf(family, suffix))})`;

/** By how much a counter rose. */
export const rise = <L extends string>(
  family: Family<L>,
  window: string,
  keep: readonly (L | 'account' | 'le')[] = [],
  where?: Matchers<L>,
  suffix: Suffix = '',
) => `${by(keep)} (${highestOf(`increase(${chosen(family, where, suffix)}[${window}])`, labelsOf(family, suffix))})`;

/** A quantile of a histogram about the chosen accounts. */
export const quantile = <L extends string>(q: number, family: Family<L>, keep: readonly L[] = []) =>
  `histogram_quantile(${q}, ${flow(family, [...keep, 'le'], {}, '_bucket')})`;

/** How long ago a time was, the longest of what is added up. */
export const age = <L extends string>(family: Family<L>, keep: readonly (L | 'account')[], where?: Matchers<L>) =>
  `time() - min by (${keep.join(', ')}) (${chosen(family, where)})`;

export const one = (expr: string): readonly Query[] => [{ expr, legend: '' }];
export const each = (legend: string, expr: string): readonly Query[] => [{ expr, legend }];
