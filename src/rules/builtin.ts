import type { Labels } from '../notify/notice.ts';
import { type BuiltinAlert, builtinAlert, isAtLeast, sentAlerts } from './checks/alerts.ts';
import type { Unknown } from './checks/check.ts';
import type { CheckResult } from './checks/run.ts';
import type { ActiveSeries, ConditionResult } from './evaluate-condition.ts';
import type { EvaluatedRule } from './evaluation.ts';
import type { BuiltinOptions } from './options.ts';

/** Returns the rules of built-in alerts. `externalUrl`: base URL of their runbooks. */
export const builtinRules = (
  options: BuiltinOptions,
  about: 'account' | 'agent',
  externalUrl: string | null,
): readonly EvaluatedRule[] =>
  sentAlerts(options).flatMap(name => {
    const { severity, isOfAgent = false, hasNoRunbook, for: pending, keepFiringFor } = builtinAlert(name);
    if (isOfAgent !== (about === 'agent')) return [];
    const hasRunbook = externalUrl !== null && !hasNoRunbook;
    const annotations: Labels = hasRunbook ? { runbook_url: new URL(`runbooks/${name}`, `${externalUrl}/`).href } : {};
    return { name, for: pending, keepFiringFor, labels: { severity }, annotations };
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

/** Evaluates a built-in alert. Findings of lower severity than the alert are ignored. */
export function evaluateBuiltin(
  name: BuiltinAlert,
  results: readonly CheckResult[],
  disabled: readonly string[],
): BuiltinResult {
  const { severity: own, label } = builtinAlert(name);
  const of = results.filter(({ check }) => check.alert === name && !disabled.includes(check.kind));
  const listed = of.flatMap(({ check, findings }): ActiveSeries[] =>
    findings
      .filter(({ severity = check.severity }) => isAtLeast(severity, own))
      .map(finding => ({ labels: labelsOf(check, finding, label), value: 1, annotations: { summary: finding.text } })),
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
