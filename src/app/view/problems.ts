import type { AccountView } from '../../http/api/account.ts';
import type { Problem } from '../../http/api/parts.ts';
import type { Sample } from '../../metrics/family.ts';
import type { AccountHistory } from '../../model/history.ts';
import type { AccountStatus } from '../../model/status.ts';
import type { ProblemLog } from './problem-log.ts';
import type { Shown } from './samples.ts';

/** What is shown of an account, as far as problems are judged on it. */
export type ShownAccount = Omit<AccountView, 'problems' | 'alerts' | 'state'>;

/** What else is known of it. */
export interface Evidence {
  /** What the account's sources show, auto-cancel's of this account among them: the same that the view was made from. */
  readonly shown: Shown;
  readonly recent: AccountHistory['recent'];
  readonly firstSeen: ProblemLog['firstSeen'];
}

/** What is known of the agent itself. */
export interface AgentEvidence {
  /** Milliseconds since the Unix epoch. */
  readonly now: number;
  readonly statuses: readonly AccountStatus[];
  /** Samples of `delivery_watch_notifications_total`. */
  readonly notifications: readonly Sample[];
  /** Why the last reload was refused, and when; empty when it was not. */
  readonly reloadFaults: readonly { readonly message: string }[];
  readonly firstSeen: ProblemLog['firstSeen'];
}

/** What is wrong with an account: the worst first, of these the oldest. Pure. */
export function problemsOf(_view: ShownAccount, _evidence: Evidence): Problem[] {
  return [];
}

/** What is wrong with the agent itself, in the same order. Pure. */
export function agentProblemsOf(_evidence: AgentEvidence): Problem[] {
  return [];
}

/** The worst first, of these the oldest: for problems of several accounts, too. */
export function byWeight(_one: Problem, _other: Problem): number {
  return 0;
}
