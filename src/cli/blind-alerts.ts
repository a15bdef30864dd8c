import { someOf } from '../app/changes.ts';
import { excludedFamilies } from '../config/excluded-families.ts';
import type { LoadedConfig } from '../config/load.ts';

/** Warns of shipped alerts that read what accounts exclude: Prometheus cannot evaluate them there. */
export async function warnOfBlindAlerts({ accounts }: LoadedConfig['config']): Promise<void> {
  const excluding = accounts
    .map(account => ({ name: account.name, families: excludedFamilies(account) }))
    .filter(({ families }) => families.length > 0);
  if (excluding.length === 0) return;
  const { alertsThatRead } = await import('../mixin/blind-alerts.ts');
  const blind = alertsThatRead([...new Set(excluding.flatMap(({ families }) => families))]);
  if (blind.length === 0) return;
  const names = someOf(excluding.map(({ name }) => name));
  process.stderr.write(
    `warning: collect.families.exclude leaves out what these shipped alerts read; in Prometheus they may be silent or wrong for ${names}: ${someOf(blind)}\n`,
  );
}
