import type { CheckInput } from './account.ts';
import { AUTO_CANCEL } from './auto-cancel.ts';
import { type AccountCheck, type Check, type Finding, UNKNOWN, type Unknown } from './check.ts';
import { DEAD_LETTERS } from './dead-letters.ts';
import { WAITLISTS } from './flow-control.ts';
import { MESSAGES } from './messages.ts';
import { READING } from './reading.ts';
import { SCHEDULES } from './schedules.ts';
import { PLAN, QUEUES, RUNS } from './service-data.ts';

export const ACCOUNT_CHECKS: readonly AccountCheck[] = [
  ...READING,
  ...MESSAGES,
  ...DEAD_LETTERS,
  ...WAITLISTS,
  ...QUEUES,
  ...SCHEDULES,
  ...PLAN,
  ...RUNS,
  ...AUTO_CANCEL,
];

/** Result of a check: its findings, and the subjects with an unknown result. */
export interface CheckResult {
  readonly check: Omit<Check<never>, 'check'>;
  readonly findings: readonly Finding[];
  readonly unknown: readonly Unknown[];
}

/** Runs checks. Reports only the first of several findings for one kind and subject. */
export function runChecks<I>(checks: readonly Check<I>[], input: I): CheckResult[] {
  const found = new Set<string>();
  return checks.map(check => {
    const findings: Finding[] = [];
    const unknown: Unknown[] = [];
    for (const each of [check.check(input)].flat()) {
      const result = typeof each === 'string' ? { text: each } : each;
      if ('isUnknown' in result) {
        unknown.push(result);
        continue;
      }
      const key = JSON.stringify([check.kind, result.subject]);
      if (!found.has(key)) findings.push(result);
      found.add(key);
    }
    return { check, findings, unknown };
  });
}

/** Runs the checks of an account. Partial data can prove a finding but not rule it out. */
export function checkAccount(input: CheckInput): CheckResult[] {
  const applicable = ACCOUNT_CHECKS.flatMap((check): AccountCheck | [] => {
    if (check.collector === undefined) return check;
    const { enabled, data } = input.dataOf(check.collector);
    if (!enabled) return [];
    if (data === 'fresh' || (data === 'partial' && check.readsSize)) return check;
    return { ...check, check: input => (data === 'partial' ? [check.check(input), UNKNOWN].flat() : UNKNOWN) };
  });
  return runChecks(applicable, input);
}
