import { hashedId } from '../kit/hash.ts';
import { bareAddress } from '../kit/text.ts';
import type { CallbackSighting, Silence } from '../model/callback.ts';
import type { JournalTarget } from '../model/journal.ts';
import { isSaneId } from '../upstream/api.ts';
import { type Judged, judge, modeOf } from './judge.ts';
import { type AutoCancelOptions, MODES } from './options.ts';

/** The same for one episode of one callback, in every process: an action is taken once. */
const actionOf = ({ account, id, episode }: JournalTarget) => hashedId([account, id, episode], 32);

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
  /** By the clock of what ends, and by the wall clock; milliseconds since the Unix epoch. */
  readonly latest: number;
  readonly now: number;
  /** What the event log said of the entry's messages, where it was asked. */
  readonly silence: Silence | undefined;
}

/** Evaluates all rules. The matching rule with the most cautious mode counts, then the first one. Undefined if none matches. */
export function judgeSighting(sighting: CallbackSighting, context: JudgeContext): Judged | undefined {
  const { account, options, silence, latest, now } = context;
  const reported = sighting.entry[options.idFrom];
  // What can't be sent is none.
  const id = reported !== undefined && isSaneId(reported) ? reported : undefined;
  const seen = { sighting, id, lastEventAt: undefined, askedAt: now, ...silence };
  const matching = options.rules
    .map(rule => ({ rule, mode: modeOf(rule, options.mode, latest), finding: judge(rule, seen) }))
    .filter(({ finding }) => finding.verdict !== 'no_match')
    .sort((a, b) => MODES.indexOf(a.mode) - MODES.indexOf(b.mode));
  const [owner, ...others] = matching;
  if (!owner) return undefined;
  const target = targetOf(account, id, sighting);
  const shadowed = others.map(({ finding }) => finding);
  return { action: actionOf(target), sighting, target, ...owner, silence, shadowed };
}
