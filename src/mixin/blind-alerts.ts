import { alertGroups, alertingRule, records } from './rules.ts';

/** Names of the shipped alerts that read one of these families, themselves or through recording rules. */
export function alertsThatRead(families: readonly string[]): string[] {
  const names = new Set(families.flatMap(name => [name, `${name}_bucket`, `${name}_sum`, `${name}_count`]));
  const readsOne = (expr: string) => (expr.match(/[a-zA-Z_:][\w:]*/g) ?? []).some(word => names.has(word));
  for (const { record, expr } of records) if (readsOne(expr)) names.add(record);
  return alertGroups
    .flatMap(({ alerts }) => alerts)
    .filter(alert => readsOne(alertingRule(alert).expr))
    .map(({ name }) => name);
}
