import { existsSync, readFileSync } from 'node:fs';
import { objectivesOptions } from '../config/objectives.ts';
import type { Config } from '../config/schema.ts';
import { formatDuration } from '../kit/duration.ts';

/** Values for the templates of rules and dashboards. */
export interface Settings {
  /** Scrape job of the agents. Without one, dashboards select all jobs. */
  readonly job?: string | undefined;
  /** Base URLs without a trailing slash. Links that need a missing URL are omitted. */
  readonly runbooks?: string | undefined;
  readonly grafana?: string | undefined;
  readonly traces?: string | undefined;
  readonly objectives: Config['objectives'];
}

export const DEFAULT_JOB = 'delivery-watch';
export const DEFAULT_OBJECTIVES: Config['objectives'] = objectivesOptions.parse({});

/** Alert sets loaded by default. Alerts for unused features have no series and never fire. */
const DEFAULT_SETS = ['core', 'postgresql', 'auto-cancel', 'schedules', 'flow-control', 'notifications'] as const;
export const ALERT_SETS = [...DEFAULT_SETS, 'extended'] as const;
export type AlertSet = (typeof ALERT_SETS)[number];

export const alertGroup = (set: AlertSet): string => `delivery-${set}`;

/** Returns the values of the placeholders `<<name>>`. */
function valuesOf({ job, runbooks, grafana, traces = '/explore', objectives }: Settings) {
  const { delivered, onTimeWithin, window } = objectives;
  const scrapeJob = job ?? DEFAULT_JOB;
  return {
    job: scrapeJob,
    // For use in a quoted PromQL string.
    jobInQuotes: JSON.stringify(scrapeJob.toWellFormed()).slice(1, -1),
    selectedJobText: job ?? 'All',
    selectedJob: job ?? '$__all',
    runbooks,
    grafana,
    traces,
    failureBudget: 1 - delivered,
    failureBudget14x: 14.4 * (1 - delivered),
    onTimeWithin: formatDuration(onTimeWithin),
    onTimeSeconds: onTimeWithin / 1000,
    onTimeSecondsHalf: onTimeWithin / 1000 / 2,
    window: formatDuration(window),
    windowMinutes: window / 60_000,
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
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

export interface RuleGroup {
  readonly name: string;
  readonly interval?: string;
  readonly rules: readonly ShippedRule[];
}

/** Removes unused recording rules, except those of the first group, which configured alerts read. */
function withoutUnread(groups: readonly RuleGroup[], dashboards: string): RuleGroup[] {
  const wordsIn = (text: string): string[] => text.match(/[\w:]+/g) ?? [];
  const read = new Set(wordsIn(dashboards));
  const isRead = ({ record, expr, annotations = {} }: ShippedRule) => {
    if (record !== undefined && !read.has(record)) return false;
    for (const word of [expr, ...Object.values(annotations)].flatMap(wordsIn)) read.add(word);
    return true;
  };
  // Process the rules in reverse, because rules use only earlier recording rules.
  const [first, ...others] = groups;
  const kept = others
    .toReversed()
    .map(group => ({ ...group, rules: group.rules.toReversed().filter(isRead).toReversed() }));
  return [...(first ? [first] : []), ...kept.toReversed().filter(({ rules }) => rules.length > 0)];
}

/**
 * Returns the shipped rules for Prometheus 2.42 and newer. With `sets`, returns only their alerts and the recording rules that
 * are used.
 */
export function shippedRules(
  settings: Settings,
  sets?: readonly AlertSet[],
  template = readTemplate('rules.json'),
): readonly RuleGroup[] {
  const omitted = ALERT_SETS.filter(set => !(sets ?? DEFAULT_SETS).includes(set)).map(alertGroup);
  const groups = filled(template, settings) as readonly RuleGroup[];
  const chosen = groups.filter(({ name }) => !omitted.includes(name));
  return sets === undefined ? chosen : withoutUnread(chosen, readTemplate('dashboards.json'));
}

interface Panel {
  readonly panels?: readonly Panel[];
  readonly fieldConfig?: { overrides: readonly object[] };
}

interface Dashboard {
  readonly templating: { list: readonly { readonly name: string }[] };
  readonly panels: readonly Panel[];
}

// biome-ignore lint/suspicious/noTemplateCurlyInString: Grafana's own variable.
const RUNBOOKS_VARIABLE = '${runbooks:raw}';

/** Removes the variable for the address of runbooks, and links that use it. */
function removeRunbooks({ templating, panels }: Dashboard): void {
  templating.list = templating.list.filter(({ name }) => name !== 'runbooks');
  for (const { fieldConfig } of panels.flatMap(panel => [panel, ...(panel.panels ?? [])])) {
    if (!fieldConfig) continue;
    fieldConfig.overrides = fieldConfig.overrides.filter(each => !JSON.stringify(each).includes(RUNBOOKS_VARIABLE));
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
