import type { JournalEntry } from '../model/journal.ts';
import { type EvaluatedCallback, lacksEvents } from './evaluate.ts';
import { type Action, isRequestedBy, type JournalState, urlOf } from './journal-state.ts';

/** Time within which an operator can approve an action (ms). */
const APPROVE_WITHIN = 24 * 3_600_000;

export type Wait = 'grace' | 'awaiting_approval';

export const waitsForApproval = ({ approvalUntil }: Action, now: number): boolean =>
  approvalUntil !== undefined && now < approvalUntil;

export function isApproved(action: Action, now: number): boolean {
  return action.approvedBy !== undefined && waitsForApproval(action, now);
}

/** An action that an operator may approve. Times in ms since the Unix epoch. */
export type PendingAction = ReturnType<typeof pendingActions>[number];

/** Returns the actions that wait for approval, the next to expire first. */
export function pendingActions({ actions }: JournalState, now: number) {
  return [...actions.values()]
    .flatMap(action => {
      const { id, rule, target, approvalUntil: expiresAt, approvedBy } = action;
      if (expiresAt === undefined || approvedBy !== undefined || !waitsForApproval(action, now)) return [];
      const { account, dlqId, messageId } = target;
      const requestedAt = expiresAt - APPROVE_WITHIN;
      return [{ account, action: id, rule, dlqId, messageId, url: urlOf(target), requestedAt, expiresAt }];
    })
    .sort((a, b) => a.expiresAt - b.expiresAt);
}

/** Returns the reason why a stuck callback waits; undefined if it does not. `own`: its action under the same rule, mode and policy. */
export function waitOf(
  { rule, mode }: Pick<EvaluatedCallback, 'rule' | 'mode'>,
  own: Action | undefined,
  walkAt: number,
  now: number,
): Wait | undefined {
  // The grace period ends with the first walk that starts at `graceUntil` or later.
  const needsGrace = rule.grace > 0 && own?.approvalUntil === undefined;
  if (needsGrace && (own?.graceUntil === undefined || walkAt < own.graceUntil)) return 'grace';
  return mode === 'approve' && !(own && isApproved(own, now)) ? 'awaiting_approval' : undefined;
}

/** Returns the line that starts a wait; undefined if the wait has begun. `wall`: wall clock; `stamp`: time for the journal. */
export function waitLine(
  wait: Wait,
  { action, rule, mode, target, finding }: EvaluatedCallback,
  own: Action | undefined,
  { policy, wall, stamp }: { readonly policy: string; readonly wall: number; readonly stamp: number },
): JournalEntry | undefined {
  const line = { at: stamp, action, rule: rule.name, mode, policy, target, evidence: finding.predicates };
  if (wait === 'awaiting_approval') {
    return own?.approvalUntil === undefined
      ? { ...line, step: 'awaiting_approval', until: stamp + APPROVE_WITHIN }
      : undefined;
  }
  // Use the wall clock, as walks do.
  return own?.graceUntil === undefined ? { ...line, step: 'marked', until: wall + rule.grace } : undefined;
}

/** Whether the look-up was inconclusive. If so, it ends no wait. */
const isInconclusive = ({ finding, silence }: EvaluatedCallback) =>
  lacksEvents(finding) && silence?.lastEventAt !== 'none';

/**
 * Returns waits that must end without a cancel, with the reason. `evaluated`: all matching callbacks of the walk. `now`: time
 * that is compared with expiry times (ms since the Unix epoch).
 */
export function clearedWaits(
  evaluated: readonly EvaluatedCallback[],
  { actions }: JournalState,
  policy: string,
  now: number,
): readonly { readonly action: string; readonly reason: string }[] {
  const byAction = new Map(evaluated.map(each => [each.action, each]));
  return [...actions.values()].flatMap(action => {
    const { id, graceUntil, approvalUntil, approvedBy, isOpen } = action;
    if ((graceUntil === undefined && approvalUntil === undefined) || isOpen) return [];
    if (approvalUntil !== undefined && now >= approvalUntil) {
      return { action: id, reason: approvedBy === undefined ? 'not_approved' : 'approval_expired' };
    }
    const known = byAction.get(id);
    const isStuck = known !== undefined && (known.finding.verdict === 'stuck' || isInconclusive(known));
    if (!isStuck) return { action: id, reason: known?.finding.reason ?? 'not_tracked' };
    return isRequestedBy(action, known, policy) ? [] : { action: id, reason: 'rule_changed' };
  });
}
