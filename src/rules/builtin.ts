import { OTHER } from '../collectors/index.ts';
import type { Labels } from '../notify/notice.ts';
import { BUILTIN_KINDS, type BuiltinKind, isSent } from './checks/alerts.ts';
import { type Finding, isAtLeast } from './checks/check.ts';
import type { CheckResult } from './checks/run.ts';
import type { ActiveSeries } from './evaluate-condition.ts';
import type { EvaluatedRule, RuleResult } from './evaluation.ts';
import { type AlertsOptions, expand } from './options.ts';

/** Returns a rule for each kind of problem, sent or not. `externalUrl`: base URL of the pages. */
export const builtinRules = (
  { enabled, builtin }: Pick<AlertsOptions, 'enabled' | 'builtin'>,
  about: 'account' | 'agent',
  externalUrl: string | null,
): readonly EvaluatedRule[] =>
  BUILTIN_KINDS.filter(({ isOfAgent }) => isOfAgent === (about === 'agent')).map(definition => {
    const { kind, alert, severity, isOfAgent, for: pending, keepFiringFor } = definition;
    const base = externalUrl?.replace(/\/+$/, '');
    const annotations: Labels =
      base === undefined
        ? {}
        : {
            runbook_url: `${base}/runbooks/${alert}`,
            status_url: isOfAgent ? `${base}/` : `${base}/accounts/{{ $labels.account }}`,
          };
    const isUnsent = !enabled || !isSent(definition, builtin);
    return { name: alert, kind, for: pending, keepFiringFor, labels: { kind, severity }, annotations, isUnsent };
  });

/** Returns the time for which a finding has a lower severity than its kind, from the start of the problem (ms). */
function minorFor(kind: BuiltinKind['severity'], check: BuiltinKind['severity'], finding: Finding): number {
  if (!isAtLeast(finding.severity ?? check, kind)) return Number.POSITIVE_INFINITY;
  return isAtLeast('warning', kind) ? 0 : (finding.warningFor ?? 0);
}

/** Returns the result of a kind's rule. `results`: the results of its checks. */
export function builtinResult(
  { labels: { severity }, annotations: { status_url } }: EvaluatedRule,
  results: readonly CheckResult[],
  account: string,
): RuleResult {
  const unknown = results.flatMap(each => each.unknown);
  const listed = results.flatMap(({ check, findings }) =>
    findings.map((finding): ActiveSeries => {
      const { subject, since, text, deadLetterKind: kind } = finding;
      const page = kind !== undefined && status_url !== undefined && expand(status_url, { account }, 1);
      const labels: Labels = subject === undefined ? {} : { subject };
      const annotations: Labels = { summary: text, ...(page && { status_url: `${page}/dlq?kind=${kind}` }) };
      const minor = minorFor(severity as BuiltinKind['severity'], check.severity, finding);
      return { labels, value: 1, annotations, since, minorFor: minor };
    }),
  );
  // Any subject without a result may be one of those that an alert without an own subject is about.
  const isAbout = (subject: string | undefined, own: string | undefined) =>
    subject === undefined || own === undefined || own === OTHER || own === subject;
  return {
    listed,
    isOver: labels => !unknown.some(({ subject }) => labels === undefined || isAbout(subject, labels.subject)),
  };
}
