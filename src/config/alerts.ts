import { accountMayAct } from '../auto-cancel/options.ts';
import { accountRounds, breakdownFamilies, dataSources, filterFamilies, LABEL_VALUES } from '../collectors/index.ts';
import { formatDuration } from '../kit/duration.ts';
import { someOf } from '../kit/text.ts';
import { HEARTBEAT, type SilenceOptions } from '../notify/options.ts';
import { BUILTIN_ALERTS, BUILTIN_KINDS, isSent, sentNames } from '../rules/checks/alerts.ts';
import { alertFamilies, collectorsOf } from '../rules/families.ts';
import { type AlertCondition, type AlertRule, isAbout, type Selector, selectorOf } from '../rules/options.ts';
import { noSuchName, type Path, type Reporter } from './errors.ts';
import type { AccountSettings, Config } from './schema.ts';

interface Checking {
  readonly config: Config;
  readonly report: Reporter;
}

function roundsOf(name: string, accounts: Config['accounts']): readonly string[] {
  const rounds = accounts.flatMap(({ collect }) => Object.keys(accountRounds(collect).get(name) ?? {}));
  return [...new Set(rounds)];
}

/** Returns the selectors of a condition with their paths and required metric types. */
function partsOf(condition: AlertCondition): [path: string[], selector: Selector, must: 'any' | 'counter' | 'time'][] {
  if (condition.kind === 'stale') return [];
  if (condition.kind !== 'ratio') return [[[], condition, condition.kind === 'age' ? 'time' : 'any']];
  return [
    [['part'], condition.part, 'counter'],
    [['whole'], condition.whole, 'counter'],
  ];
}

/** Returns the values that a label may have in these accounts; undefined if any value is possible. */
function valuesOf(family: string, label: string, { autoCancel }: Config, accounts: readonly AccountSettings[]) {
  if (label === 'filter') return accounts.flatMap(({ collect }) => collect.dlq.filters.map(({ name }) => name));
  if (label === 'rule') return autoCancel.rules.map(({ name }) => name);
  return LABEL_VALUES.get(family)?.[label];
}

/** Returns why these accounts never have a series of the family, or undefined. */
function neverShown(family: string, accounts: readonly AccountSettings[]): string | undefined {
  const [dimension] = Object.entries(breakdownFamilies).find(([, { name }]) => name === family) ?? [];
  if (
    dimension !== undefined &&
    !accounts.some(({ collect }) => collect.dlq.breakdowns.some(each => each === dimension))
  ) {
    return `has no series: collect.dlq.breakdowns does not list ${dimension}`;
  }
  const isOfFilters = Object.values(filterFamilies).some(({ name }) => name === family);
  return isOfFilters && accounts.every(({ collect }) => collect.dlq.filters.length === 0)
    ? 'has no series: collect.dlq.filters is empty'
    : undefined;
}

/** Returns why no series has this label value, or undefined. */
function neverIs(
  family: string,
  label: string,
  value: string,
  config: Config,
  accounts: readonly AccountSettings[],
): string | undefined {
  if (label === 'destination' && accounts.every(account => account.collect.events.destination === 'none')) {
    return 'there is no such label while collect.events.destination is none';
  }
  const values = valuesOf(family, label, config, accounts);
  if (!values || values.includes(value)) return undefined;
  if (values.length === 0) return `there is no ${label} called ${value}`;
  return `must be one of ${[...new Set(values)].join(', ')}; ${value} does not occur`;
}

/** Returns why a condition cannot use the metric, or undefined. */
function metricError({ metric }: Selector, must: 'any' | 'counter' | 'time', { accounts }: Config): string | undefined {
  const found = alertFamilies.get(metric);
  if (!found) return `must be a gauge or counter of an account (docs/metrics.md), not ${metric}`;
  const { family, collector } = found;
  if (must === 'counter' && family.type !== 'counter') return `must be a counter; ${metric} is a gauge`;
  if (must === 'time' && !metric.endsWith('_timestamp_seconds')) {
    return 'must be a metric that ends in _timestamp_seconds';
  }
  if (collector !== undefined && roundsOf(collector, accounts).length === 0) {
    return `belongs to the collector ${collector}, which is not enabled for any account`;
  }
  return neverShown(metric, accounts);
}

function checkSelector(
  selector: Selector,
  must: 'any' | 'counter' | 'time',
  ruleLabels: readonly string[],
  { config, report }: Checking,
  path: Path,
): void {
  const { metric, labels } = selector;
  const { accounts } = config;
  const wrong = metricError(selector, must, config);
  if (wrong) report.error([...path, 'metric'], wrong);
  const accountNames = accounts.map(({ name }) => name);
  for (const name of labels.account ?? []) {
    if (accountNames.includes(name)) continue;
    report.error([...path, 'labels', 'account'], noSuchName('account', name, accountNames));
  }
  const family = alertFamilies.get(metric)?.family;
  if (!family || wrong) return;
  const allowed = ['account', ...family.labels];
  for (const label of Object.keys(labels)) {
    if (allowed.includes(label)) continue;
    report.error([...path, 'labels', label], `${metric} has no such label; it has ${allowed.join(', ')}`);
  }
  const taken = ruleLabels.find(label => family.labels.includes(label));
  if (taken !== undefined) {
    report.error([...path, 'metric'], `has the label ${taken}, which the rule's own label would replace`);
  }
  const named = accounts.filter(({ name }) => labels.account?.includes(name) ?? true);
  const about = named.length === 0 ? accounts : named;
  for (const [label, values] of Object.entries(labels)) {
    // Skip the empty value: it matches series without the label, in any family.
    for (const value of values.filter(value => value !== '')) {
      const message = family.labels.includes(label) && neverIs(family.name, label, value, config, about);
      if (message) report.error([...path, 'labels', label], message);
    }
  }
}

/** Maximum window (ms). The history of a window is read at startup. */
const MAX_WINDOW = 7 * 86_400_000;

function checkWindow(over: number, { alerts: { evaluateEvery }, store }: Config, path: Path, report: Reporter): void {
  const { keep } = store.history;
  if (over > MAX_WINDOW) {
    report.error(path, `must be at most ${formatDuration(MAX_WINDOW)}, regardless of store.history.keep`);
  } else if (over < evaluateEvery) {
    report.error(path, `must be at least alerts.evaluateEvery, ${formatDuration(evaluateEvery)}`);
  } else if (store.kind !== 'memory' && over > keep) {
    const [window, kept, missing] = [over, keep, over - keep].map(formatDuration);
    report.warn(
      path,
      `is ${window}, but store.history.keep is ${kept}: after each restart the condition is unknown for ${missing}`,
    );
  }
}

function checkCondition({ when, labels }: AlertRule, checking: Checking, path: Path): void {
  const { config, report } = checking;
  if (when.kind === 'stale') {
    const { collector, round } = when;
    const enabled = dataSources.map(({ name }) => name).filter(name => roundsOf(name, config.accounts).length > 0);
    const rounds = roundsOf(collector, config.accounts);
    if (!enabled.includes(collector)) {
      report.error([...path, 'collector'], `must be a collector that is enabled: ${enabled.join(', ')}`);
    } else if (round !== undefined && !rounds.includes(round)) {
      report.error([...path, 'round'], `must be a round of ${collector}: ${rounds.join(', ')}`);
    }
  }
  if (when.kind === 'growth' || when.kind === 'ratio') {
    checkWindow(when.over, config, [...path, 'over'], report);
  }
  if (when.kind === 'ratio' && when.part.metric === when.whole.metric && when.above >= 1) {
    report.error([...path, 'above'], 'must be below 1, because part and whole are the same metric; write 5 % as 0.05');
  }
  for (const [inside, selector, must] of partsOf(when)) {
    // A ratio of sums has no labels that the rule's labels could replace.
    checkSelector(selector, must, when.kind === 'ratio' ? [] : Object.keys(labels), checking, [...path, ...inside]);
  }
}

/** Returns the names of the configured rules and of the built-in alerts that are sent. */
const alertNames = ({ rules, builtin }: Config['alerts']): readonly string[] => [
  ...rules.map(({ name }) => name),
  ...sentNames(builtin).alerts,
];

/** Warns if an alert should prevent cancels for an account, but never fires for it. */
function checkPausing({ alerts, autoCancel, accounts }: Config, report: Reporter): void {
  for (const [index, alert] of autoCancel.pauseWhileAlerts.entries()) {
    const when = alerts.rules.find(({ name }) => name === alert)?.when;
    if (!when) continue;
    // The alert may exclude accounts on purpose: skip those.
    for (const account of accounts.filter(({ name }) => isAbout(when, name) && accountMayAct({ autoCancel }, name))) {
      const missing = collectorsOf(when).find(collector => roundsOf(collector, [account]).length === 0);
      if (missing === undefined) continue;
      const why = `because its collector ${missing} is not enabled`;
      const message = `${alert} never fires for the account ${account.name}, ${why}: it prevents no cancel there`;
      report.warn(['autoCancel', 'pauseWhileAlerts', index], message);
    }
  }
}

/** Returns the names that `pauseWhileAlerts` may contain: names of alerts, and kinds of problems. */
export const pausingNames = (alerts: Config['alerts']): readonly string[] => [
  ...alertNames(alerts),
  ...sentNames(alerts.builtin).kinds,
];

/** Values that sent alerts may have, by label; undefined if any value is possible. */
type LabelValues = ReadonlyMap<string, ReadonlySet<string> | undefined>;

function labelsOfAlerts({ alerts: { rules, builtin }, accounts }: Config): LabelValues {
  const sent = BUILTIN_KINDS.filter(kind => isSent(kind, builtin));
  const values = new Map<string, Set<string> | undefined>([
    ['alertname', new Set([...rules.map(({ name }) => name), ...sent.map(({ alert }) => alert)])],
    ['account', new Set(accounts.map(({ name }) => name))],
    ['kind', new Set(sent.map(({ kind }) => kind))],
    ['severity', new Set(sent.map(({ severity }) => severity))],
    ['subject', undefined],
    ['overflow', undefined],
  ]);
  for (const { when, labels } of rules) {
    if (when.kind !== 'ratio') {
      for (const label of alertFamilies.get(selectorOf(when).metric)?.family.labels ?? []) values.set(label, undefined);
    }
    for (const [label, value] of Object.entries(labels)) {
      if (!values.has(label)) values.set(label, new Set());
      values.get(label)?.add(value);
    }
  }
  return values;
}

/** Warns of labels and values that no alert has. */
function checkMatch(match: SilenceOptions['match'], known: LabelValues, path: Path, report: Reporter) {
  for (const [label, values] of Object.entries(match)) {
    const existing = known.get(label);
    if (!known.has(label)) {
      report.warn([...path, label], `no sent alert has the label ${label}; labels: ${[...known.keys()].join(', ')}`);
    }
    // The empty value matches alerts without the label.
    for (const value of values.filter(value => value !== '' && existing?.has(value) === false)) {
      const others = existing?.size ? `; there are: ${someOf([...existing])}` : '';
      report.warn([...path, label], `no sent alert has the ${label} ${value}${others}`);
    }
  }
}

function checkSilences(config: Config, now: number, report: Reporter): void {
  const { alerts, accounts } = config;
  for (const [index, silence] of alerts.silences.entries()) {
    const { match, until } = silence;
    const { alertname, account, ...others } = match;
    const path = ['alerts', 'silences', index];
    for (const [label, given, names, what] of [
      ['alertname', alertname, alertNames(alerts), 'alert'],
      ['account', account, accounts.map(({ name }) => name), 'account'],
    ] as const) {
      for (const name of given ?? []) {
        if (names.includes(name) || name === '') continue;
        report.error([...path, 'match', label], noSuchName(what, name, names));
      }
    }
    checkMatch(others, labelsOfAlerts(config), [...path, 'match'], report);
    if (until !== null && until <= now) {
      report.warn([...path, 'until'], `is in the past: the silence ended at ${new Date(until).toISOString()}`);
    }
  }
}

/** Warns if alerts are never sent. Without `enabled`, only auto-cancel uses notifiers and only `rules print` uses rules. */
function checkDisabled({ alerts, autoCancel }: Config, report: Reporter): void {
  const isUnused = alerts.notifiers.some(({ name }) => !autoCancel.rules.some(({ notify }) => notify.includes(name)));
  if (alerts.enabled || !(isUnused || (alerts.rules.length > 0 && !report.isGiven(['alerts', 'enabled'])))) return;
  report.warn(['alerts', 'enabled'], 'is false: no alert is evaluated or sent');
}

/** Checks the names in `alerts` against the configuration and the metrics. */
export function checkAlerts(config: Config, now: number, report: Reporter): void {
  const { alerts, autoCancel } = config;
  checkDisabled(config, report);
  for (const [index, { match }] of alerts.notifiers.entries())
    checkMatch(match, labelsOfAlerts(config), ['alerts', 'notifiers', index, 'match'], report);
  checkSilences(config, now, report);
  const taken = config.heartbeat ? alerts.notifiers.findIndex(({ name }) => name === HEARTBEAT) : -1;
  if (taken >= 0)
    report.error(['alerts', 'notifiers', taken, 'name'], `${HEARTBEAT} is reserved for the section heartbeat`);
  const builtin: readonly string[] = alerts.builtin
    ? [...BUILTIN_ALERTS, ...BUILTIN_KINDS.map(({ kind }) => kind)]
    : [];
  for (const [index, rule] of alerts.rules.entries()) {
    if (builtin.includes(rule.name)) {
      report.error(['alerts', 'rules', index, 'name'], `${rule.name} is a built-in alert or kind: choose another name`);
    }
    checkCondition(rule, { config, report }, ['alerts', 'rules', index, 'when', rule.when.kind]);
  }
  if (!alerts.enabled && autoCancel.pauseWhileAlerts.length > 0)
    report.error(['autoCancel', 'pauseWhileAlerts'], 'needs alerts.enabled: true');
  else checkPausing(config, report);
  if (alerts.enabled && alerts.notifiers.length === 0 && autoCancel.pauseWhileAlerts.length === 0) {
    const message = 'is true, but alerts.notifiers is empty: alerts are evaluated and shown, but not sent';
    report.warn(['alerts', 'enabled'], message);
  }
}
