import type { JournalEntry } from '../model/journal.ts';
import { type Action, isAskedBy, type JournalState, urlOf } from './journal-state.ts';
import { type Judged, lacksEvents } from './judge.ts';

/** Milliseconds in which an operator can approve. */
const APPROVE_WITHIN = 24 * 3_600_000;

export type Wait = 'grace' | 'awaiting_approval';

/** Whether an operator may approve it at `now`, milliseconds since the Unix epoch. */
export const waitsForApproval = ({ approvalUntil }: Action, now: number): boolean =>
  approvalUntil !== undefined && now < approvalUntil;

/** Whether an approval was given, and still holds at `now`. */
export function isApproved(action: Action, now: number): boolean {
  return action.approvedBy !== undefined && waitsForApproval(action, now);
}

/** An action that an operator may approve. Times: milliseconds since the Unix epoch. */
export type PendingAction = ReturnType<typeof pendingActions>[number];

/** Actions that wait for approval at `now`, the next to expire first. */
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

/** The wait of a stuck callback, or undefined. `own`: its action by the same rule, mode and policy. `walkAt`: start of the walk. */
export function waitOf(
  { rule, mode }: Pick<Judged, 'rule' | 'mode'>,
  own: Action | undefined,
  walkAt: number,
  now: number,
): Wait | undefined {
  // The walk that ends the grace must have begun after it. Approval is asked for after the grace.
  const isGracious = rule.grace > 0 && own?.approvalUntil === undefined;
  if (isGracious && (own?.graceUntil === undefined || walkAt < own.graceUntil)) return 'grace';
  return mode === 'approve' && !(own && isApproved(own, now)) ? 'awaiting_approval' : undefined;
}

/** The journal line that starts a wait, or undefined if it has started. `wall`: wall clock; `stamp`: time for the journal. */
export function waitLine(
  wait: Wait,
  { action, rule, mode, target, finding }: Judged,
  own: Action | undefined,
  { policy, wall, stamp }: { readonly policy: string; readonly wall: number; readonly stamp: number },
): JournalEntry | undefined {
  const line = { at: stamp, action, rule: rule.name, mode, policy, target, evidence: finding.predicates };
  if (wait === 'awaiting_approval') {
    return own?.approvalUntil === undefined
      ? { ...line, step: 'awaiting_approval', until: stamp + APPROVE_WITHIN }
      : undefined;
  }
  // By the clock that walks count by: where it is set, their episodes start over.
  return own?.graceUntil === undefined ? { ...line, step: 'marked', until: wall + rule.grace } : undefined;
}

/** The event log could not tell: that ends no wait. */
const isUnasked = ({ finding, silence }: Judged) => lacksEvents(finding) && silence?.lastEventAt !== 'none';

/**
 * The waits that end without a cancel, and why: the callback is not stuck any more, another rule asks, or the time to approve
 * is over. `judged`: everything that the walk saw. `now`: the latest time there was, milliseconds since the Unix epoch.
 */
export function clearedWaits(
  judged: readonly Judged[],
  { actions }: JournalState,
  policy: string,
  now: number,
): readonly { readonly action: string; readonly reason: string }[] {
  const byAction = new Map(judged.map(each => [each.action, each]));
  return [...actions.values()].flatMap(action => {
    const { id, graceUntil, approvalUntil, approvedBy, isOpen } = action;
    if ((graceUntil === undefined && approvalUntil === undefined) || isOpen) return [];
    if (approvalUntil !== undefined && now >= approvalUntil) {
      return { action: id, reason: approvedBy === undefined ? 'not_approved' : 'approval_expired' };
    }
    const known = byAction.get(id);
    const isStuck = known !== undefined && (known.finding.verdict === 'stuck' || isUnasked(known));
    if (!isStuck) return { action: id, reason: known?.finding.reason ?? 'not_tracked' };
    return isAskedBy(action, known, policy) ? [] : { action: id, reason: 'rule_changed' };
  });
}
