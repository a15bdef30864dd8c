import { someOf } from '../app/changes.ts';
import { excludedFamilies } from '../config/excluded-families.ts';
import type { LoadedConfig } from '../config/load.ts';

/** Warns of shipped and configured alerts that read what accounts exclude: Prometheus cannot evaluate them there. */
export async function warnOfBlindAlerts(config: LoadedConfig['config']): Promise<void> {
  const { accounts } = config;
  const excluding = accounts
    .map(account => ({ name: account.name, families: excludedFamilies(account) }))
    .filter(({ families }) => families.length > 0);
  if (excluding.length === 0) return;
  const [{ alertsThatRead }, { configuredAlerts }] = await Promise.all([
    import('../mixin/blind-alerts.ts'),
    import('../app/offline.ts'),
  ]);
  const blind = alertsThatRead(
    [...new Set(excluding.flatMap(({ families }) => families))],
    configuredAlerts(config).rules,
  );
  if (blind.length === 0) return;
  const names = someOf(excluding.map(({ name }) => name));
  process.stderr.write(
    `warning: collect.families.exclude leaves out what these alert rules read; in Prometheus they may be silent or wrong for ${names}: ${someOf(blind)}\n`,
  );
}
