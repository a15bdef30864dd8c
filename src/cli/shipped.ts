import { existsSync, readFileSync } from 'node:fs';
import type { Config } from '../config/schema.ts';
import { formatDuration } from '../kit/duration.ts';
import { objectivesOptions } from '../metrics/objectives.ts';
import { BURN_WINDOWS } from '../metrics/thresholds.ts';

/** Values for the templates of rules and dashboards. */
export interface Settings {
  /** Scrape job of the agents. Without one, dashboards select all jobs. */
  readonly job?: string | undefined;
  /** Base URLs without a trailing slash. Links that need a missing URL are omitted. */
  readonly runbooks?: string | undefined;
  readonly grafana?: string | undefined;
  readonly traces?: string | undefined;
  /** Address of the agent, `server.externalUrl`. */
  readonly agent?: string | undefined;
  /** Kinds of problems to enable although they are off by default. */
  readonly enable?: readonly string[];
  /** Default: the objectives of an empty configuration. */
  readonly objectives?: Config['objectives'];
}

export const DEFAULT_JOB = 'delivery-watch';
const DEFAULT_OBJECTIVES: Config['objectives'] = objectivesOptions.parse({});

/** Sets of shipped rules, from dashboards/rules/alerting.yaml and slo.yaml. */
export const RULE_SETS = ['default', 'slo'] as const;
export type RuleSet = (typeof RULE_SETS)[number];

/** Returns the values of the placeholders `<<name>>`. */
function valuesOf({
  job,
  runbooks,
  grafana,
  traces = '/explore',
  agent,
  enable = [],
  objectives = DEFAULT_OBJECTIVES,
}: Settings) {
  const { delivered, onTimeWithin } = objectives;
  const scrapeJob = job ?? DEFAULT_JOB;
  return {
    job: scrapeJob,
    // For use in a quoted PromQL string.
    jobInQuotes: JSON.stringify(scrapeJob).slice(1, -1),
    selectedJobText: job ?? 'All',
    selectedJob: job ?? '$__all',
    runbooks,
    grafana,
    traces,
    agent,
    enabled: enable.length === 0 ? '' : `\nor delivery:held{kind=~"${enable.join('|')}"}`,
    failureBudget: 1 - delivered,
    failureBudget14x: BURN_WINDOWS.fast[0].times * (1 - delivered),
    onTimeWithin: formatDuration(onTimeWithin),
    onTimeSeconds: onTimeWithin / 1000,
    onTimeSecondsHalf: onTimeWithin / 1000 / 2,
  };
}

export type PlaceholderName = keyof ReturnType<typeof valuesOf>;

/** Parses a template and fills in its placeholders. A placeholder without a value removes its property. */
export function filled(template: string, settings: Settings): unknown {
  const values: Readonly<Record<string, string | number | undefined>> = valuesOf(settings);
  return JSON.parse(template, (_key, value) => {
    if (typeof value !== 'string') return value;
    const names = [...value.matchAll(/<<(\w+)>>/g)].map(([, name = '']) => name);
    if (names.some(name => values[name] === undefined)) return undefined;
    const [first = ''] = names;
    return value === `<<${first}>>` ? values[first] : value.replace(/<<(\w+)>>/g, (_, name) => String(values[name]));
  });
}

/** Reads a template from the package or, in a source tree, from `mixin/`. */
function readTemplate(name: string): string {
  const packaged = new URL('./mixin/', import.meta.url);
  const folder = existsSync(packaged) ? packaged : new URL('../../mixin/templates/', import.meta.url);
  return readFileSync(new URL(name, folder), 'utf8');
}

/** A recording or alerting rule in Prometheus' format. */
export interface ShippedRule {
  readonly record?: string;
  readonly alert?: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

export interface RuleGroup {
  readonly name: string;
  readonly interval?: string;
  readonly rules: readonly ShippedRule[];
}

/** Returns the shipped rules for Prometheus 2.42 and newer, by set. */
export const shippedRules = (settings: Settings) =>
  filled(readTemplate('rules.json'), settings) as Readonly<Record<RuleSet, RuleGroup>>;

interface Panel {
  readonly panels?: readonly Panel[];
  readonly fieldConfig?: { readonly overrides: readonly { properties: readonly object[] }[] };
}

interface Dashboard {
  readonly templating: { list: readonly { readonly name: string }[] };
  readonly panels: readonly Panel[];
}

// biome-ignore lint/suspicious/noTemplateCurlyInString: Grafana's own variable.
const RUNBOOKS_VARIABLE = '${runbooks:raw}';

/** Removes the variable for the address of runbooks, and the properties of table columns that use it. */
function removeRunbooks({ templating, panels }: Dashboard): void {
  templating.list = templating.list.filter(({ name }) => name !== 'runbooks');
  for (const { fieldConfig } of panels.flatMap(panel => [panel, ...(panel.panels ?? [])])) {
    for (const override of fieldConfig?.overrides ?? []) {
      override.properties = override.properties.filter(each => !JSON.stringify(each).includes(RUNBOOKS_VARIABLE));
    }
  }
}

/** Returns the dashboards by file name. Without a Grafana URL, links between them are relative. */
export function shippedDashboards(
  { runbooks, grafana = '', ...settings }: Settings,
  template = readTemplate('dashboards.json'),
): Readonly<Record<string, object>> {
  const dashboards = filled(template, { ...settings, runbooks, grafana }) as Readonly<Record<string, Dashboard>>;
  if (runbooks === undefined) for (const dashboard of Object.values(dashboards)) removeRunbooks(dashboard);
  return dashboards;
}
