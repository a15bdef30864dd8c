import { isCertain, selectorsOf } from '../alerts/judge.ts';
import { BLIND, blindness, heldPromql, PARTIAL, partiality, promqlOf } from '../alerts/promql.ts';
import { type AlertRule, alertFamilies, decidingRounds } from '../config/alerts.ts';
import type { Config } from '../config/schema.ts';
import { formatDuration } from '../kit/duration.ts';

/** Collectors whose data a rule is about. */
function collectorsOf({ when }: AlertRule): readonly string[] {
  return [...new Set(selectorsOf(when).flatMap(({ metric }) => alertFamilies.get(metric)?.collector ?? []))];
}

function expressionOf(rule: AlertRule): string {
  const { name, when, labels } = rule;
  const expr = promqlOf(when, metric => alertFamilies.get(metric)?.family.labels ?? []);
  const collectors = collectorsOf(rule);
  return collectors.length === 0
    ? expr
    : heldPromql(expr, { name, labels: Object.keys(labels), collectors, isCertain: isCertain(when) });
}

/** The alerts of a configuration as a Prometheus rule file (2.42 and newer), ready to be written as YAML. */
export function prometheusRules(config: Config): object {
  const { rules, evaluateEvery } = config.alerts;
  const rounds = [...new Set(rules.flatMap(collectorsOf))].flatMap(name => decidingRounds(name, config));
  const records =
    rounds.length === 0
      ? []
      : [
          { record: BLIND, expr: blindness(rounds) },
          { record: PARTIAL, expr: partiality(rounds) },
        ];
  const alerts = rules.map(rule => ({
    alert: rule.name,
    expr: expressionOf(rule),
    ...(rule.for === 0 ? {} : { for: formatDuration(rule.for) }),
    ...(rule.keepFiringFor === 0 ? {} : { keep_firing_for: formatDuration(rule.keepFiringFor) }),
    ...(Object.keys(rule.labels).length === 0 ? {} : { labels: rule.labels }),
    ...(Object.keys(rule.annotations).length === 0 ? {} : { annotations: rule.annotations }),
  }));
  return {
    groups: [{ name: 'delivery-watch', interval: formatDuration(evaluateEvery), rules: [...records, ...alerts] }],
  };
}
