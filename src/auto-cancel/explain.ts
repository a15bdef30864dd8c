import { bareAddress } from '../kit/text.ts';
import type { CallbackFacts, CallbackSighting } from '../model/callback.ts';
import type { Finding } from '../model/finding.ts';
import type { FinalOutcome } from '../model/journal.ts';
import type { Pause } from './brake.ts';
import type { Journal } from './journal.ts';
import { type Action, endOf, isPlanned } from './journal-state.ts';
import type { Judged } from './judge.ts';

/** Why one failure callback is, or is not, acted upon. Times: milliseconds since the Unix epoch. */
export interface Explanation {
  readonly account: string;
  readonly dlqId: string | undefined;
  readonly messageId: string | undefined;
  /** Of the message and of its workflow, without user, query and fragment. */
  readonly url: string | undefined;
  readonly workflowUrl: string | undefined;
  readonly action: string | undefined;
  readonly firstSeenAt: number;
  readonly lastSeenAt: number;
  readonly snapshots: number;
  /** The rule whose finding counts, and what it may do now. Undefined when no rule matches. */
  readonly owner: { readonly rule: string; readonly mode: string } | undefined;
  /** What each rule that matches finds, that of the owner first. */
  readonly findings: readonly Finding[];
  /** Why nothing is done now although it is stuck, as one word; undefined when something would be. */
  readonly held: string | undefined;
  readonly paused: Pause | undefined;
  readonly attempts: number;
  readonly outcome: FinalOutcome | 'open' | undefined;
  /** It waits for the approval of an operator, which would count. */
  readonly mayApprove: boolean;
}

interface ExplainDeps {
  readonly account: string;
  readonly journal: Journal;
  readonly paused: Pause | undefined;
  skipReason(judged: Judged): string | undefined;
  mayApprove(action: Action): boolean;
}

/** The callback of the entry with this dlqId, or messageId; undefined when no such one is tracked. */
export const sightingOf = (id: string, facts: CallbackFacts | undefined): CallbackSighting | undefined =>
  facts?.sightings.find(({ entry }) => entry.dlqId === id || entry.messageId === id);

/** What is to be said of a callback. `judged`: what its rules say of it. */
export function explain(sighting: CallbackSighting, judged: Judged | undefined, deps: ExplainDeps): Explanation {
  const { account, journal } = deps;
  const { entry, firstSeenAt, lastSeenAt, snapshots } = sighting;
  const { state } = journal;
  const known = judged && state.actions.get(judged.action);
  const closed = judged && state.closed.get(judged.action);
  const ended = judged && endOf(state, judged.action);
  const isStuck = judged?.finding.verdict === 'stuck';
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
    held: isStuck ? (ended ?? deps.skipReason(judged)) : undefined,
    paused: deps.paused,
    attempts: (known?.attempts.length ?? 0) + (closed?.attempts ?? 0),
    outcome: known?.isOpen ? 'open' : (ended ?? (judged && isPlanned(state, judged.action) ? 'planned' : undefined)),
    mayApprove: known !== undefined && deps.mayApprove(known),
  };
}
