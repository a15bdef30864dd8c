import type { BuiltinOptions } from '../options.ts';
import { AGENT_CHECKS } from './agent.ts';
import { type BuiltinAlert, type Check, isAtLeast } from './check.ts';
import { ACCOUNT_CHECKS } from './run.ts';

type Definition = Omit<Check<never>, 'check' | 'when' | 'kind'>;

const byAlert = Map.groupBy<BuiltinAlert, Definition & Pick<Check<never>, 'kind'>>(
  [...ACCOUNT_CHECKS, ...AGENT_CHECKS],
  ({ alert }) => alert,
);

export const BUILTIN_ALERTS: readonly BuiltinAlert[] = [...byAlert.keys()];

const ofAgent = new Set(AGENT_CHECKS.map(({ alert }) => alert));

/** Returns the definition of an alert: that of its checks, with the highest of their severities. Throws for an unknown name. */
export function builtinAlert(name: BuiltinAlert) {
  const checks = byAlert.get(name);
  if (!checks) throw new Error(`there is no built-in alert ${name}`);
  const severest = checks.reduce((a, b) => (isAtLeast(a.severity, b.severity) ? a : b));
  return { ...severest, kinds: [...new Set(checks.map(({ kind }) => kind))], isOfAgent: ofAgent.has(name) };
}

/** Whether a built-in alert is sent for problems of this kind. */
export function isSent(name: BuiltinAlert, kind: string, options: BuiltinOptions): boolean {
  const { severity, isExtended = false } = builtinAlert(name);
  if (!options || (isExtended && !options.extended)) return false;
  return isAtLeast(severity, options.severity) && !options.disable.some(disabled => disabled === kind);
}

export const sentAlerts = (options: BuiltinOptions): readonly BuiltinAlert[] =>
  BUILTIN_ALERTS.filter(name => builtinAlert(name).kinds.some(kind => isSent(name, kind, options)));
