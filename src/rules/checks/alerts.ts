import type { BuiltinOptions } from '../options.ts';
import { AGENT_CHECKS } from './agent.ts';
import { type BuiltinAlert, type Check, isAtLeast } from './check.ts';
import { ACCOUNT_CHECKS } from './run.ts';

/** A kind of problem and its alert. Together, they are one rule of the agent. */
export interface BuiltinKind extends Omit<Check<never>, 'check' | 'collector' | 'when'> {
  /** Whether the kind is a problem of the agent, not of an account. */
  readonly isOfAgent: boolean;
}

type Checks = readonly Omit<Check<never>, 'check'>[];

const kindsOf = (checks: Checks, isOfAgent: boolean): readonly BuiltinKind[] =>
  checks
    .filter(({ kind }, index) => checks.findIndex(other => other.kind === kind) === index)
    .map(check => ({ ...check, isOfAgent }));

/** All kinds of problems, each with the name of its alert. */
export const BUILTIN_KINDS: readonly BuiltinKind[] = [
  ...kindsOf(ACCOUNT_CHECKS, false),
  ...kindsOf(AGENT_CHECKS, true),
];

export const BUILTIN_ALERTS: ReadonlySet<string> = new Set<BuiltinAlert>(BUILTIN_KINDS.map(({ alert }) => alert));

/** Whether the configuration sends alerts about problems of this kind. */
export function isSent({ kind, severity, isOff = false }: BuiltinKind, options: BuiltinOptions): boolean {
  if (!options || options.disable.includes(kind)) return false;
  return options.enable.includes(kind) || (!isOff && isAtLeast(severity, options.severity));
}

/** Returns the names of the built-in alerts that are sent, and the kinds of problems that they report. */
export function sentNames(options: BuiltinOptions) {
  const sent = BUILTIN_KINDS.filter(kind => isSent(kind, options));
  return { alerts: [...new Set(sent.map(({ alert }) => alert))], kinds: sent.map(({ kind }) => kind) };
}
