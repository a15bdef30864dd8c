import { readFileSync } from 'node:fs';
import { parse } from 'yaml';

interface GrafanaRule {
  readonly uid: string;
  readonly title: string;
  readonly data: readonly [{ readonly datasourceUid: string; readonly model: { readonly expr: string } }, object];
  readonly for: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** Returns the rules in deploy/grafana/alerting/rules.yaml. */
export const grafanaRules = (): readonly GrafanaRule[] =>
  parse(readFileSync('deploy/grafana/alerting/rules.yaml', 'utf8')).groups[0].rules;
