import { bareAddress } from '../kit/text.ts';
import type { CallbackSighting } from '../model/callback.ts';
import { endOf, isPlanned } from './journal-state.ts';
import type { Judged } from './judge.ts';
import type { Moments, MomentsDeps } from './moments.ts';
import { skipReason } from './stages.ts';
import { waitsForApproval } from './waits.ts';

type ExplainDeps = Pick<MomentsDeps, 'account' | 'policy' | 'journal' | 'brake' | 'clock'> & {
  readonly moments: Moments;
};

/** Why one failure callback is or is not cancelled. Times: ms since the Unix epoch. */
export type Explanation = Readonly<ReturnType<typeof explain>>;

/** Explains a callback. `judged`: what its rules find. `walkAt`: start of the last complete walk. */
export function explain(
  { entry, firstSeenAt, lastSeenAt, snapshots }: CallbackSighting,
  judged: Judged | undefined,
  walkAt: number,
  { account, policy, journal: { state }, moments, brake, clock }: ExplainDeps,
) {
  const known = judged && state.actions.get(judged.action);
  const closed = judged && state.closed.get(judged.action);
  const ended = judged && endOf(state, judged.action);
  const isStuck = judged?.finding.verdict === 'stuck';
  const held = () =>
    judged && (ended ?? skipReason(moments.callback(judged, { walkAt, usesBefore: state.uses.length })));
  return {
    account,
    dlqId: entry.dlqId,
    messageId: entry.messageId,
    /** URLs of the message and its workflow, without user, query and fragment. */
    url: entry.url && bareAddress(entry.url),
    workflowUrl: entry.workflowUrl && bareAddress(entry.workflowUrl),
    action: judged?.action,
    firstSeenAt,
    lastSeenAt,
    snapshots,
    /** The deciding rule with its current mode; undefined if no rule matches. */
    owner: judged && { rule: judged.rule.name, mode: judged.mode },
    /** Findings of all matching rules, the owner's first. */
    findings: judged ? [judged.finding, ...judged.shadowed] : [],
    /** Reason for doing nothing although it is stuck; undefined if it would be cancelled. */
    held: isStuck ? held() : undefined,
    paused: brake.pause,
    attempts: (known?.attempts.length ?? 0) + (closed?.attempts ?? 0),
    outcome: known?.isOpen
      ? ('open' as const)
      : (ended ?? (judged && isPlanned(state, judged.action) ? ('planned' as const) : undefined)),
    /** Whether it waits for approval, and an approval would count. */
    mayApprove:
      known !== undefined &&
      known.approvedBy === undefined &&
      known.asker?.policy === policy &&
      waitsForApproval(known, clock.now()),
  };
}
