import { CHECK_SEVERITIES } from '../model/check-kind.ts';
import type { CheckResult } from '../rules/checks/run.ts';
import type { ProblemState } from '../rules/problem-states.ts';
import type { Problem } from './api/parts.ts';
import { isoTime } from './values.ts';

const keyOf = (kind: string, subject: string | null) => JSON.stringify([kind, subject]);

/**
 * Returns the problems of an account or of the agent: the current findings, and problems that keep firing after their last
 * finding. The start of a problem comes from the state machine or, if the problem is new, from its finding.
 */
export function problemsOf(
  results: readonly CheckResult[],
  account: string | null,
  { now, states }: { readonly now: number; readonly states: readonly ProblemState[] },
): Problem[] {
  const starts = new Map(states.map(({ kind, subject, startsAt }) => [keyOf(kind, subject), startsAt]));
  const problem = (of: Omit<Problem, 'account' | 'since' | 'runbook'>, runbook: string, since: number) => ({
    account,
    ...of,
    since: isoTime(Math.min(since, now)),
    runbook,
  });
  const found = results.flatMap(({ check, findings }) =>
    findings.map(finding => {
      const { subject = null, text, deadLetterKind } = finding;
      const { kind, severity } = check;
      const since = starts.get(keyOf(kind, subject)) ?? finding.since ?? now;
      return problem({ kind, severity, subject, text, deadLetterKind }, check.alert, since);
    }),
  );
  const shown = new Set(found.map(({ kind, subject }) => keyOf(kind, subject)));
  const kept = states.flatMap(({ isClear, startsAt, kind, severity, subject, text }) => {
    const own = results.filter(({ check }) => check.kind === kind);
    const [first] = own;
    const unknown = own.flatMap(each => each.unknown);
    const isUnknown = unknown.some(each => each.subject === undefined || each.subject === subject);
    if (!isClear || !first || isUnknown || shown.has(keyOf(kind, subject))) return [];
    return problem({ kind, severity, subject, text }, first.check.alert, startsAt);
  });
  return [...found, ...kept].sort(byWeight);
}

/** Compares two problems for sorting: worst severity first, then newest first. */
export function byWeight(one: Problem, other: Problem): number {
  const weight = ({ severity }: Problem) => CHECK_SEVERITIES.indexOf(severity);
  const [since, otherSince] = [one.since ?? '', other.since ?? ''];
  return weight(one) - weight(other) || (since > otherSince ? -1 : Number(since < otherSince));
}
