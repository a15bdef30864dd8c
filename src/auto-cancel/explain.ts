import { bareAddress } from '../kit/text.ts';
import type { CallbackSighting } from '../model/callback.ts';
import type { Contexts, ContextsDeps } from './context.ts';
import type { DecisionLog } from './decision-log.ts';
import type { EvaluatedCallback } from './evaluate.ts';
import { endOf, isPlanned } from './journal-state.ts';
import { isAboutNextDelivery, skipReason } from './stages.ts';
import { waitsForApproval } from './waits.ts';

type ExplainDeps = Pick<ContextsDeps, 'account' | 'policy' | 'journal' | 'brake' | 'clock'> & {
  readonly contexts: Contexts;
  readonly decisions: Pick<DecisionLog, 'last'>;
};

/** Explanation of why a failure callback is cancelled or skipped. Times in ms since the Unix epoch. */
export type Explanation = Readonly<ReturnType<typeof explain>>;

export function explain(
  { entry, firstSeenAt, lastSeenAt, snapshots }: CallbackSighting,
  evaluated: EvaluatedCallback | undefined,
  walkAt: number,
  { account, policy, journal: { state }, contexts, decisions, brake, clock }: ExplainDeps,
) {
  const known = evaluated && state.actions.get(evaluated.action);
  const closed = evaluated && state.closed.get(evaluated.action);
  const ended = evaluated && endOf(state, evaluated.action);
  const isStuck = evaluated?.finding.verdict === 'stuck';
  const wasPlanned = evaluated !== undefined && isPlanned(state, evaluated.action);
  function skipped(): string | undefined {
    // Waits and limits do not apply to what is planned or sent.
    if (!evaluated || ended || known?.isOpen) return ended ?? (known && 'unresolved');
    if (evaluated.mode === 'plan' && wasPlanned) return 'planned';
    const reason = skipReason(contexts.callback(evaluated, { walkAt, usesBefore: state.uses.length }));
    if (reason !== undefined) return reason;
    // Only an attempt asks for the next delivery.
    const last = decisions.last(evaluated.action) ?? '';
    return isAboutNextDelivery(last) ? last : undefined;
  }
  return {
    account,
    dlqId: entry.dlqId,
    messageId: entry.messageId,
    /** Without user, query and fragment. */
    url: entry.url && bareAddress(entry.url),
    workflowUrl: entry.workflowUrl && bareAddress(entry.workflowUrl),
    action: evaluated?.action,
    firstSeenAt,
    lastSeenAt,
    snapshots,
    /** Undefined if no rule matches. */
    owner: evaluated && { rule: evaluated.rule.name, mode: evaluated.mode },
    /** The owner's finding is first. */
    findings: evaluated ? [evaluated.finding, ...evaluated.shadowed] : [],
    /** Why a stuck callback is skipped; undefined if it would be cancelled. */
    held: isStuck ? skipped() : undefined,
    paused: brake.pause,
    attempts: (known?.attempts.length ?? 0) + (closed?.attempts ?? 0),
    outcome: known?.isOpen ? ('open' as const) : (ended ?? (wasPlanned ? ('planned' as const) : undefined)),
    mayApprove:
      known !== undefined &&
      known.approvedBy === undefined &&
      known.requester?.policy === policy &&
      waitsForApproval(known, clock.now()),
  };
}
