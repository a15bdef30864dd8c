import { createHash } from 'node:crypto';
import { bareAddress } from '../kit/bare-address.ts';
import type { Clock } from '../kit/clock.ts';
import type { CallbackFacts, CallbackSighting, Silence } from '../model/callback.ts';
import type { JournalTarget } from '../model/journal.ts';
import { isSaneId } from '../upstream/api.ts';
import type { EventLookUps } from './event-look-ups.ts';
import { type Judged, judge, lacksEvents } from './judge.ts';
import type { AutoCancelOptions, Mode, Rule } from './options.ts';

/** From the most cautious to the least. */
const MODES: readonly Mode[] = ['plan', 'approve', 'enforce'];

/** The same for one episode of one callback, in every process: an action is taken once. */
function actionOf({ account, id, episode }: JournalTarget): string {
  return createHash('sha256')
    .update(JSON.stringify([account, id, episode]))
    .digest('hex')
    .slice(0, 32);
}

function targetOf(account: string, id: string | undefined, { entry, episode }: CallbackSighting): JournalTarget {
  const { dlqId, messageId, workflowRunId, url, workflowUrl, responseStatus } = entry;
  return {
    account,
    id: id ?? '',
    dlqId,
    messageId,
    workflowRunId,
    url: url && bareAddress(url),
    workflowUrl: workflowUrl && bareAddress(workflowUrl),
    responseStatus,
    episode,
  };
}

interface JudgeContext {
  readonly account: string;
  readonly options: AutoCancelOptions;
  /** What a rule may do now. */
  modeOf(rule: Rule): Mode;
  /** What the event log said of the entry's messages, where it was asked. */
  readonly silence: Silence | undefined;
  /** Milliseconds since the Unix epoch. */
  readonly now: number;
}

/**
 * Asks every rule; of those that match the one with the most cautious mode counts, and of two such the first in the
 * configuration. Undefined where none matches.
 */
function judgeSighting(sighting: CallbackSighting, context: JudgeContext): Judged | undefined {
  const { account, options, silence, now } = context;
  const reported = sighting.entry[options.idFrom];
  // What can't be sent is none.
  const id = reported !== undefined && isSaneId(reported) ? reported : undefined;
  const seen = { sighting, id, lastEventAt: undefined, askedAt: now, ...silence };
  const matching = options.rules
    .filter(({ accounts }) => accounts?.includes(account) ?? true)
    .map(rule => ({ rule, mode: context.modeOf(rule), finding: judge(rule, seen) }))
    .filter(({ finding }) => finding.verdict !== 'no_match')
    .sort((a, b) => MODES.indexOf(a.mode) - MODES.indexOf(b.mode));
  const [owner, ...others] = matching;
  if (!owner) return undefined;
  const target = targetOf(account, id, sighting);
  const shadowed = others.map(({ finding }) => finding);
  return { action: actionOf(target), sighting, target, ...owner, silence, shadowed };
}

/** Judges the failure callbacks of one account. */
export interface Candidates {
  /** Judges one anew, with what the event log has said so far. */
  judge(sighting: CallbackSighting): Judged | undefined;
  /**
   * Judges all that a walk has seen, and looks up events of those that lack nothing else. `unread`: how many may be stuck like
   * the others, and there was no time to ask. `isOvertaken`: the next walk has come.
   */
  judgeAll(
    facts: CallbackFacts,
    how: {
      readonly mayAsk: boolean;
      readonly isDecided: (judged: Judged) => boolean;
      readonly isOvertaken: () => boolean;
      readonly signal: AbortSignal;
    },
  ): Promise<{ readonly judged: readonly Judged[]; readonly unread: number }>;
}

export function createCandidates(
  deps: Pick<JudgeContext, 'account' | 'options' | 'modeOf'> & {
    readonly lookUps: EventLookUps;
    readonly clock: Pick<Clock, 'now'>;
  },
): Candidates {
  const { lookUps, clock } = deps;
  const judgeOne = (sighting: CallbackSighting) =>
    judgeSighting(sighting, { ...deps, silence: lookUps.of(sighting.entry.id), now: clock.now() });
  return {
    judge: judgeOne,
    async judgeAll({ sightings }, { mayAsk, isDecided, isOvertaken, signal }) {
      const first = sightings.flatMap(sighting => judgeOne(sighting) ?? []);
      const lacking = first.filter(({ finding }) => lacksEvents(finding));
      const unread = mayAsk ? await lookUps.ask(lacking, isDecided, isOvertaken, signal) : 0;
      const judged = first.flatMap(each =>
        lookUps.of(each.sighting.entry.id) ? (judgeOne(each.sighting) ?? []) : each,
      );
      return { judged, unread };
    },
  };
}
