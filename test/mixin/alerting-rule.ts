import { rulesTemplate } from '../../mixin/rules.ts';
import { ALERT_SETS, DEFAULT_OBJECTIVES, type Settings, shippedRules } from '../../src/cli/shipped.ts';

/** Returns the Prometheus rule of a shipped alert, with default objectives. */
export function alertingRule(name: string, links: Pick<Settings, 'runbooks' | 'grafana'> = {}) {
  const rules = shippedRules({ ...links, objectives: DEFAULT_OBJECTIVES }, ALERT_SETS, rulesTemplate).flatMap(
    group => group.rules,
  );
  const rule = rules.find(({ alert }) => alert === name);
  if (!rule?.annotations || !rule.labels) throw new Error(`there is no alert ${name}`);
  return { ...rule, labels: rule.labels, annotations: rule.annotations };
}
