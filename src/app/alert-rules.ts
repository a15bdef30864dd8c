import { prometheusRules } from '../alerts/promql.ts';
import { alertFamilies, collectorsOf, decidingRounds } from '../config/alerts.ts';
import type { Config } from '../config/schema.ts';
import { ownFamilies } from '../metrics/own.ts';

/** The alerts of a configuration as a Prometheus rule file (2.42 and newer), ready to be written as YAML. */
export function printedRules(config: Config): object {
  const { rules, evaluateEvery } = config.alerts;
  return prometheusRules(rules, evaluateEvery, {
    health: ownFamilies,
    family: metric => alertFamilies.get(metric)?.family ?? { name: metric, labels: [] },
    // That data is stale can be judged while it is.
    collectorsOf: when => (when.kind === 'stale' ? [] : collectorsOf(when)),
    roundsOf: collector => decidingRounds(collector, config),
  });
}
