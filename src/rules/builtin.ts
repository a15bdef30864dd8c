import type { Labels } from '../notify/notice.ts';
import { BUILTIN_ALERTS, builtinAlert, isSent } from './checks/alerts.ts';
import { type BuiltinAlert, isAtLeast, severityOf, type Unknown } from './checks/check.ts';
import type { CheckResult } from './checks/run.ts';
import type { ActiveSeries, ConditionResult } from './evaluate-condition.ts';
import type { EvaluatedRule } from './evaluation.ts';
import type { AlertsOptions } from './options.ts';

/** Returns the rules of all built-in alerts, sent or not. `externalUrl`: base URL of their runbooks. */
export const builtinRules = (
  { enabled, builtin }: Pick<AlertsOptions, 'enabled' | 'builtin'>,
  about: 'account' | 'agent',
  externalUrl: string | null,
): readonly EvaluatedRule[] =>
  BUILTIN_ALERTS.flatMap((name): EvaluatedRule | [] => {
    const { severity, kinds, isOfAgent, hasNoRunbook, for: pending, keepFiringFor } = builtinAlert(name);
    if (isOfAgent !== (about === 'agent')) return [];
    const hasRunbook = externalUrl !== null && !hasNoRunbook;
    const annotations: Labels = hasRunbook ? { runbook_url: new URL(`runbooks/${name}`, `${externalUrl}/`).href } : {};
    const sentKinds = enabled ? kinds.filter(kind => isSent(name, kind, builtin)) : [];
    return { name, for: pending, keepFiringFor, labels: { severity }, annotations, sentKinds };
  });

/**
 * Returns the alert labels of a finding or of a subject without a result. `label`: name of the label that contains the subject.
 */
function labelsOf(
  { collector }: CheckResult['check'],
  { subject, labels }: Pick<Unknown, 'subject' | 'labels'>,
  label: string | undefined,
): Labels {
  const own = labels ?? (subject === undefined || label === undefined ? {} : { [label]: subject.toWellFormed() });
  return collector === undefined ? own : { collector, ...own };
}

export interface BuiltinResult {
  readonly result: ConditionResult;
  /** Labels of subjects without a result: alerts with these labels keep their state. */
  readonly unknown: readonly Labels[];
}

/** Evaluates a built-in alert. `of`: results of its checks. */
export function evaluateBuiltin(name: BuiltinAlert, of: readonly CheckResult[]): BuiltinResult {
  const { severity: own, label } = builtinAlert(name);
  const listed = of.flatMap(({ check, findings }) =>
    findings.map((finding): ActiveSeries => {
      const isMinor = (age: number) => !isAtLeast(severityOf(check, finding, age), own);
      const problem = { ...finding, kind: check.kind, isMinor };
      return { labels: labelsOf(check, finding, label), value: 1, annotations: { summary: finding.text }, problem };
    }),
  );
  const isUnknown = of.some(({ unknown }) => unknown.some(({ subject }) => subject === undefined));
  return {
    result: isUnknown ? { atLeast: listed } : listed,
    unknown: of.flatMap(({ check, unknown }) => unknown.map(each => labelsOf(check, each, label))),
  };
}

/** Whether an alert with these labels is about a subject without a result. Without `labels`: whether such a subject exists. */
export const isAboutUnknown = ({ unknown }: BuiltinResult, labels?: Labels): boolean =>
  unknown.some(own => Object.entries(own).every(([name, value]) => (labels?.[name] ?? value) === value));
