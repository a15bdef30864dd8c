import { excludedFamilies } from '../config/excluded-families.ts';
import type { LoadedConfig } from '../config/load.ts';
import { someOf } from '../kit/text.ts';
import { type RuleSet, type ShippedRule, shippedRules } from './shipped.ts';

/** Returns the alerts that read one of these families, directly or through recording rules. `sets`: shipped alerts to include. */
export function alertsThatRead(
  families: readonly string[],
  configured: readonly ShippedRule[] = [],
  sets: readonly RuleSet[] = ['default'],
): string[] {
  const names = new Set(families.flatMap(name => [name, `${name}_bucket`, `${name}_sum`, `${name}_count`]));
  const shipped = shippedRules({});
  return [...sets.flatMap(set => shipped[set].rules), ...configured].flatMap(({ record, alert, expr }) => {
    if (!(expr.match(/[a-zA-Z_:][\w:]*/g) ?? []).some(word => names.has(word))) return [];
    if (record !== undefined) names.add(record);
    return alert ?? [];
  });
}

/** Warns of alerts that cannot be evaluated, because an account excludes a family that they read. */
export async function warnOfBlindAlerts(config: LoadedConfig['config'], sets?: readonly RuleSet[]): Promise<void> {
  const { accounts } = config;
  const excluding = accounts
    .map(account => ({ name: account.name, families: excludedFamilies(account) }))
    .filter(({ families }) => families.length > 0);
  if (excluding.length === 0) return;
  const { configuredAlerts } = await import('./offline-rules.ts');
  const blind = alertsThatRead(
    [...new Set(excluding.flatMap(({ families }) => families))],
    configuredAlerts(config).rules,
    sets,
  );
  if (blind.length === 0) return;
  const names = someOf(excluding.map(({ name }) => name));
  process.stderr.write(
    `warning: collect.families.exclude omits families that alert rules read; in Prometheus, these rules may be silent or wrong for ${names}: ${someOf(blind)}\n`,
  );
}
