import type { CallbackFacts, CallbackSighting } from '../model/callback.ts';
import type { Finding } from '../model/finding.ts';
import type { FinalOutcome } from '../model/journal.ts';
import type { Journal } from './journal.ts';
import type { JournalState } from './journal-state.ts';
import type { Judged } from './judge.ts';

/** Why one failure callback is, or is not, acted upon. Times: milliseconds since the Unix epoch. */
export interface Explanation {
  readonly account: string;
  readonly dlqId: string | undefined;
  readonly messageId: string | undefined;
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
  /** The pause of the whole account; undefined while there is none. */
  readonly paused: JournalState['paused'];
  /** What has been done. */
  readonly attempts: number;
  readonly outcome: FinalOutcome | 'open' | undefined;
}

interface ExplainDeps {
  readonly account: string;
  readonly journal: Journal;
  /** Of the last complete walk, as the board shows it. */
  readonly facts: CallbackFacts | undefined;
  judge(sighting: CallbackSighting): Judged | undefined;
  /** What the stages say now. */
  skipReason(judged: Judged, walkAt: number): string | undefined;
}

/** What is to be said of the entry with this dlqId, or messageId; undefined when no such callback is tracked. */
export function explain(id: string, deps: ExplainDeps): Explanation | undefined {
  const { account, journal, facts } = deps;
  const sighting = facts?.sightings.find(({ entry }) => entry.dlqId === id || entry.messageId === id);
  if (!facts || !sighting) return undefined;
  const { entry, firstSeenAt, lastSeenAt, snapshots } = sighting;
  const judged = deps.judge(sighting);
  const known = judged && journal.state.actions.get(judged.action);
  const isStuck = judged?.finding.verdict === 'stuck';
  return {
    account,
    dlqId: entry.dlqId,
    messageId: entry.messageId,
    action: judged?.action,
    firstSeenAt,
    lastSeenAt,
    snapshots,
    owner: judged && { rule: judged.rule.name, mode: judged.mode },
    findings: judged ? [judged.finding, ...judged.shadowed] : [],
    held: isStuck ? (known?.ended ?? deps.skipReason(judged, facts.at)) : undefined,
    paused: journal.state.paused,
    attempts: known?.attempts.length ?? 0,
    outcome: known?.isOpen ? 'open' : (known?.ended ?? (known?.isPlanned ? 'planned' : undefined)),
  };
}
