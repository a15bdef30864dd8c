import type { CallbackFacts } from '../model/callback.ts';
import type { Finding } from '../model/finding.ts';
import type { FinalOutcome } from '../model/journal.ts';
import type { Journal } from './journal.ts';
import type { JournalState } from './journal-state.ts';
import type { Pipeline } from './pipeline.ts';

/** Why one failure callback is, or is not, acted upon. Times: milliseconds since the Unix epoch. */
export interface Explanation {
  readonly account: string;
  readonly dlqId: string | undefined;
  readonly messageId: string | undefined;
  readonly action: string | undefined;
  readonly firstSeenAt: number;
  readonly lastSeenAt: number;
  readonly snapshots: number;
  /** The rule whose word counts, and what it may do now. Undefined when no rule matches. */
  readonly owner: { readonly rule: string; readonly mode: string } | undefined;
  /** What each rule that matches says, that of the owner first. */
  readonly findings: readonly Finding[];
  /** Why nothing is done now although it is stuck, as one word; undefined when something would be. */
  readonly held: string | undefined;
  /** The pause that holds everything back, stuck or not; undefined while there is none. */
  readonly paused: JournalState['paused'];
  /** What has been done. */
  readonly attempts: number;
  readonly outcome: FinalOutcome | 'open' | undefined;
}

interface ExplainDeps {
  readonly account: string;
  readonly journal: Journal;
  readonly pipeline: Pipeline;
  facts(): CallbackFacts | undefined;
}

/** What is to be said of the entry with this dlqId, or messageId; undefined when no such callback is tracked. */
export function explain(id: string, { account, journal, pipeline, facts }: ExplainDeps): Explanation | undefined {
  const seen = facts();
  const sighting = seen?.sightings.find(({ entry }) => entry.dlqId === id || entry.messageId === id);
  if (!seen || !sighting) return undefined;
  const { entry, firstSeenAt, lastSeenAt, snapshots } = sighting;
  const judged = pipeline.judge(sighting);
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
    held: isStuck ? (known?.ended ?? pipeline.whyNot(judged, seen.at)) : undefined,
    paused: journal.state.paused,
    attempts: known?.attempts.length ?? 0,
    outcome: known?.isOpen ? 'open' : (known?.ended ?? (known?.isPlanned ? 'planned' : undefined)),
  };
}
