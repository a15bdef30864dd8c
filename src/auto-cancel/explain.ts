import { bareAddress } from '../kit/text.ts';
import type { CallbackSighting } from '../model/callback.ts';
import type { Finding } from '../model/finding.ts';
import type { FinalOutcome } from '../model/journal.ts';
import type { Pause } from './brake.ts';
import { endOf, isPlanned } from './journal-state.ts';
import type { Judged } from './judge.ts';
import type { Moments, MomentsDeps } from './moments.ts';
import { skipReason } from './stages.ts';
import { waitsForApproval } from './waits.ts';

type ExplainDeps = Pick<MomentsDeps, 'account' | 'policy' | 'journal' | 'brake' | 'clock'> & {
  readonly moments: Moments;
};

/** Why one failure callback is or is not cancelled. Times: ms since the Unix epoch. */
export interface Explanation {
  readonly account: string;
  readonly dlqId: string | undefined;
  readonly messageId: string | undefined;
  /** URLs of the message and its workflow, without user, query and fragment. */
  readonly url: string | undefined;
  readonly workflowUrl: string | undefined;
  readonly action: string | undefined;
  readonly firstSeenAt: number;
  readonly lastSeenAt: number;
  readonly snapshots: number;
  /** The deciding rule with its current mode; undefined if no rule matches. */
  readonly owner: { readonly rule: string; readonly mode: string } | undefined;
  /** Findings of all matching rules, the owner's first. */
  readonly findings: readonly Finding[];
  /** Reason for doing nothing although it is stuck; undefined if it would be cancelled. */
  readonly held: string | undefined;
  readonly paused: Pause | undefined;
  readonly attempts: number;
  readonly outcome: FinalOutcome | 'open' | undefined;
  /** Whether it waits for approval, and an approval would count. */
  readonly mayApprove: boolean;
}

/** Explains a callback. `judged`: what its rules find. `walkAt`: start of the last complete walk. */
export function explain(
  { entry, firstSeenAt, lastSeenAt, snapshots }: CallbackSighting,
  judged: Judged | undefined,
  walkAt: number,
  { account, policy, journal: { state }, moments, brake, clock }: ExplainDeps,
): Explanation {
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
    url: entry.url && bareAddress(entry.url),
    workflowUrl: entry.workflowUrl && bareAddress(entry.workflowUrl),
    action: judged?.action,
    firstSeenAt,
    lastSeenAt,
    snapshots,
    owner: judged && { rule: judged.rule.name, mode: judged.mode },
    findings: judged ? [judged.finding, ...judged.shadowed] : [],
    held: isStuck ? held() : undefined,
    paused: brake.pause,
    attempts: (known?.attempts.length ?? 0) + (closed?.attempts ?? 0),
    outcome: known?.isOpen ? 'open' : (ended ?? (judged && isPlanned(state, judged.action) ? 'planned' : undefined)),
    mayApprove:
      known !== undefined &&
      known.approvedBy === undefined &&
      known.asker?.policy === policy &&
      waitsForApproval(known, clock.now()),
  };
}
