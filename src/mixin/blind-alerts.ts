import { alertGroups, alertingRule, records } from './rules.ts';

interface AlertingRule {
  readonly alert: string;
  readonly expr: string;
}

/** Names of the alerts, those shipped and `more`, that read one of these families, themselves or through recording rules. */
export function alertsThatRead(families: readonly string[], more: readonly AlertingRule[] = []): string[] {
  const names = new Set(families.flatMap(name => [name, `${name}_bucket`, `${name}_sum`, `${name}_count`]));
  const readsOne = ({ expr }: { readonly expr: string }) =>
    (expr.match(/[a-zA-Z_:][\w:]*/g) ?? []).some(word => names.has(word));
  for (const rule of records) if (readsOne(rule)) names.add(rule.record);
  const shipped = alertGroups.flatMap(({ alerts }) => alerts).map(alert => alertingRule(alert));
  return [...shipped, ...more].filter(readsOne).map(({ alert }) => alert);
}
