import { CHECK_SEVERITIES } from '../model/check-kind.ts';
import { builtinAlert } from '../rules/checks/alerts.ts';
import type { CheckResult } from '../rules/checks/run.ts';
import { clockTime } from '../rules/checks/words.ts';
import type { Problem } from './api/parts.ts';
import type { ProblemLog } from './problem-log.ts';
import { isoTime } from './values.ts';

export function problemsOf(
  results: readonly CheckResult[],
  account: string | null,
  { now, firstSeen }: Pick<ProblemLog, 'firstSeen'> & { readonly now: number },
): Problem[] {
  const problems = results.flatMap(({ check: { kind, severity: usual, alert }, findings }) => {
    const runbook = builtinAlert(alert).hasNoRunbook ? null : alert;
    return findings.map(({ subject = null, text: found, severity = usual, since: known, retryAt = 0 }): Problem => {
      const text = retryAt > now ? `${found.slice(0, -1)}; retried at ${clockTime(retryAt, now)}.` : found;
      const since = isoTime(Math.min(known ?? firstSeen({ kind, subject }) ?? now, now));
      return { account, kind, severity, subject, since, text, runbook };
    });
  });
  return problems.sort(byWeight);
}

/** Compares two problems for sorting: worst severity first, then oldest first. */
export function byWeight(one: Problem, other: Problem): number {
  const weight = ({ severity }: Problem) => CHECK_SEVERITIES.indexOf(severity);
  const since = (problem: Problem) => problem.since ?? '9999';
  return weight(one) - weight(other) || (since(one) < since(other) ? -1 : Number(since(one) > since(other)));
}
