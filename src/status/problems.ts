import { UNRESOLVED } from '../metrics/thresholds.ts';
import { type Problem, SEVERITIES } from './api/parts.ts';
import type { ProblemLog } from './problem-log.ts';
import { AGENT_CHECKS, type AgentMoment } from './problems/agent.ts';
import { type AccountCheck, type Check, defineCheck, type Moment, type ShownAccount } from './problems/check.ts';
import { DEAD_LETTERS } from './problems/dead-letters.ts';
import { WAITLISTS } from './problems/flow-control.ts';
import { MESSAGES } from './problems/messages.ts';
import { READING } from './problems/reading.ts';
import { REPLICA_CHECKS, type Unheld } from './problems/replicas.ts';
import { SCHEDULES } from './problems/schedules.ts';
import { lasting } from './problems/words.ts';
import { createRecent } from './recent.ts';
import { isoTime } from './values.ts';

export type { ShownAccount } from './problems/check.ts';

export type Evidence = Omit<Moment, 'view' | 'now' | 'changes'>;

const AUTO_CANCEL: readonly AccountCheck[] = [
  defineCheck('cancel_unresolved', 'critical', 'DeliveryAutoCancelUnresolved', {
    when: 'a cancel was begun more than 30 minutes ago, and its outcome is not known',
    check: ({ autoCancel, now }) =>
      [...(autoCancel?.unresolved ?? [])].flatMap(([subject, since]) => {
        const age = (now - since) / 1000;
        const text = `A cancel by the rule ${subject} has had no known outcome for ${lasting(age)}.`;
        return age > UNRESOLVED ? { subject, since, text } : [];
      }),
  }),
  defineCheck('breaker_open', 'warning', 'DeliveryAutoCancelBreakerOpen', {
    when: 'a breaker of auto-cancel is open',
    check: ({ autoCancel }) =>
      [...(autoCancel?.breakers ?? [])].flatMap(([subject, isOpen]) => {
        const text = `The breaker ${subject} is open: nothing is cancelled until an operator resets it.`;
        return isOpen ? { subject, text } : [];
      }),
  }),
  defineCheck('auto_cancel_paused', 'info', null, {
    when: 'an operator has paused auto-cancel',
    check: ({ autoCancel }) =>
      autoCancel?.isPaused ? 'Auto-cancel is paused: nothing is cancelled until an operator resumes it.' : [],
  }),
];

/** All checks of an account. Of checks with the same kind and subject, the first finding is reported. */
export const ACCOUNT_CHECKS: readonly AccountCheck[] = [
  ...READING,
  ...MESSAGES,
  ...DEAD_LETTERS,
  ...WAITLISTS,
  ...SCHEDULES,
  ...AUTO_CANCEL,
];

/**
 * Runs checks. They evaluate windows of minutes and keep no state. A check of a part reports nothing if a check of the whole
 * does: if the service is down, no collector is reported.
 */
function judged<M extends { readonly now: number }>(
  checks: readonly Check<M>[],
  moment: M,
  account: string | null,
  firstSeen: ProblemLog['firstSeen'],
): Problem[] {
  const problems = new Map<string, Problem>();
  for (const { kind, severity: usual, runbook, check } of checks) {
    const result = check(moment);
    for (const found of typeof result === 'string' ? [{ text: result }] : [result].flat()) {
      const { subject = null, text, severity = usual } = found;
      const key = JSON.stringify([kind, subject]);
      if (problems.has(key)) continue;
      const since = isoTime(Math.min(found.since ?? firstSeen({ kind, subject }) ?? moment.now, moment.now));
      problems.set(key, { account, kind, severity, subject, since, text, runbook });
    }
  }
  return [...problems.values()].sort(byWeight);
}

export function problemsOf(view: ShownAccount, evidence: Evidence): Problem[] {
  const now = Date.parse(view.now);
  const moment = { ...evidence, view, now, changes: createRecent(evidence, now) };
  return judged(ACCOUNT_CHECKS, moment, view.account, evidence.firstSeen);
}

export const unheldProblems = (unheld: Unheld, account: string): Problem[] =>
  judged(REPLICA_CHECKS, unheld, account, () => undefined);

export const agentProblemsOf = ({ firstSeen, ...moment }: AgentMoment & Pick<ProblemLog, 'firstSeen'>): Problem[] =>
  judged(AGENT_CHECKS, moment, null, firstSeen);

/** Sorts problems by severity, then by age, the oldest first. */
export function byWeight(one: Problem, other: Problem): number {
  const weight = ({ severity }: Problem) => SEVERITIES.indexOf(severity);
  const since = (problem: Problem) => problem.since ?? '9999';
  return weight(one) - weight(other) || (since(one) < since(other) ? -1 : Number(since(one) > since(other)));
}
