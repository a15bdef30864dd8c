import type { JournalEntry } from '../model/journal.ts';
import { type EvaluatedCallback, lacksEvents } from './evaluate.ts';
import { type Action, isRequestedBy, type JournalState, urlOf } from './journal-state.ts';

/** Time in which an operator can approve (ms). */
const APPROVE_WITHIN = 24 * 3_600_000;

export type Wait = 'grace' | 'awaiting_approval';

/** Whether approval was requested and its deadline has not passed at `now` (ms since the Unix epoch). */
export const waitsForApproval = ({ approvalUntil }: Action, now: number): boolean =>
  approvalUntil !== undefined && now < approvalUntil;

/** Whether the action is approved and the approval is still valid at `now`. */
export function isApproved(action: Action, now: number): boolean {
  return action.approvedBy !== undefined && waitsForApproval(action, now);
}

/** An action that an operator may approve. Times: milliseconds since the Unix epoch. */
export type PendingAction = ReturnType<typeof pendingActions>[number];

/** Returns actions that wait for approval at `now`, the next to expire first. */
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

/** Returns the wait of a stuck callback, or undefined. `own`: its action by the same rule, mode and policy. `walkAt`: start of the walk. */
export function waitOf(
  { rule, mode }: Pick<EvaluatedCallback, 'rule' | 'mode'>,
  own: Action | undefined,
  walkAt: number,
  now: number,
): Wait | undefined {
  // Only a walk that started after the grace ends it. Approval is requested after the grace.
  const needsGrace = rule.grace > 0 && own?.approvalUntil === undefined;
  if (needsGrace && (own?.graceUntil === undefined || walkAt < own.graceUntil)) return 'grace';
  return mode === 'approve' && !(own && isApproved(own, now)) ? 'awaiting_approval' : undefined;
}

/**
 * Returns the journal line that starts a wait; undefined if the wait has already started. `wall`: wall clock; `stamp`: time for
 * the journal.
 */
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
  // Use the wall clock, as walks do: a change of the clock starts new episodes.
  return own?.graceUntil === undefined ? { ...line, step: 'marked', until: wall + rule.grace } : undefined;
}

/** Whether the event look-up was inconclusive, which ends no wait. */
const isInconclusive = ({ finding, silence }: EvaluatedCallback) =>
  lacksEvents(finding) && silence?.lastEventAt !== 'none';

/**
 * Returns waits that end without a cancel, with the reason: the callback is no longer tracked or stuck, the rule, mode or policy
 * has changed, or the deadline for approval has passed. `evaluated`: all callbacks of the walk that rules match. `now`: time for
 * expiry (ms since the Unix epoch).
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
