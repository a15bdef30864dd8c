import type { BuiltinOptions } from '../options.ts';
import { AGENT_CHECKS } from './agent.ts';
import { type BuiltinAlert, type Check, isAtLeast } from './check.ts';
import { ACCOUNT_CHECKS } from './run.ts';

const OF_AGENT = new Set(AGENT_CHECKS.map(({ alert }) => alert));

/** Returns the definition of an alert: that of its checks, with the highest of their severities. */
function definitionOf(name: BuiltinAlert, checks: readonly Omit<Check<never>, 'check'>[]) {
  const severest = checks.reduce((a, b) => (isAtLeast(a.severity, b.severity) ? a : b));
  return { ...severest, kinds: [...new Set(checks.map(({ kind }) => kind))], isOfAgent: OF_AGENT.has(name) };
}

const byAlert = Map.groupBy([...ACCOUNT_CHECKS, ...AGENT_CHECKS], ({ alert }) => alert);
const definitions = new Map([...byAlert].map(([name, checks]) => [name, definitionOf(name, checks)]));

export const BUILTIN_ALERTS: readonly BuiltinAlert[] = [...definitions.keys()];

/** Throws for an unknown name. */
export function builtinAlert(name: BuiltinAlert) {
  const definition = definitions.get(name);
  if (!definition) throw new Error(`there is no built-in alert ${name}`);
  return definition;
}

/** Whether a built-in alert is sent for problems of this kind. */
export function isSent(name: BuiltinAlert, kind: string, options: BuiltinOptions): boolean {
  const { severity, isExtended = false } = builtinAlert(name);
  if (!options || (isExtended && !options.extended)) return false;
  return isAtLeast(severity, options.severity) && !options.disable.some(disabled => disabled === kind);
}

export const sentAlerts = (options: BuiltinOptions): readonly BuiltinAlert[] =>
  BUILTIN_ALERTS.filter(name => builtinAlert(name).kinds.some(kind => isSent(name, kind, options)));
