import { createHash } from 'node:crypto';
import { bareAddress } from '../kit/bare-address.ts';
import type { CallbackSighting, Silence } from '../model/callback.ts';
import type { Finding } from '../model/finding.ts';
import type { JournalTarget } from '../model/journal.ts';
import { isSaneId } from '../upstream/api.ts';
import type { ActingRule, AutoCancelOptions } from './options.ts';

export type Mode = ActingRule['mode'];

/** From the most cautious to the least. */
const MODES: readonly Mode[] = ['plan', 'approve', 'enforce'];

/** What a rule may do now: no more than the global mode, and after its end only plan. `now`: milliseconds since the Unix epoch. */
export function modeOf(rule: ActingRule, globalMode: AutoCancelOptions['mode'], now: number): Mode {
  const hasExpired = rule.expires !== null && now >= rule.expires;
  return globalMode !== 'enforce' || hasExpired ? 'plan' : rule.mode;
}

/** A failure callback, and the one rule whose word counts for it. */
export interface Judged {
  readonly action: string;
  readonly sighting: CallbackSighting;
  readonly target: JournalTarget;
  readonly rule: ActingRule;
  readonly mode: Mode;
  readonly finding: Finding;
  /** What the event log said, where it was asked. */
  readonly silence: Silence | undefined;
  /** What the other rules that match it say. */
  readonly shadowed: readonly Finding[];
}

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

export interface JudgeContext {
  readonly account: string;
  readonly options: AutoCancelOptions;
  /** What a rule may do now. */
  modeOf(rule: ActingRule): Mode;
  readonly silence: Silence | undefined;
  judge(rule: string, sighting: CallbackSighting, id: string | undefined, silence: Silence | undefined): Finding;
}

/**
 * Every rule that matches says its word; that of the most cautious mode counts, and of two the first in the
 * configuration. Undefined where none matches.
 */
export function judgeSighting(sighting: CallbackSighting, context: JudgeContext): Judged | undefined {
  const { account, options, silence, judge } = context;
  const reported = sighting.entry[options.idFrom];
  // What can't be sent is none.
  const id = reported !== undefined && isSaneId(reported) ? reported : undefined;
  const matching = options.rules
    .filter(({ accounts }) => accounts === null || accounts.includes(account))
    .map(rule => ({ rule, mode: context.modeOf(rule), finding: judge(rule.name, sighting, id, silence) }))
    .filter(({ finding }) => finding.verdict !== 'no_match')
    .sort((a, b) => MODES.indexOf(a.mode) - MODES.indexOf(b.mode));
  const [owner, ...others] = matching;
  if (!owner) return undefined;
  const target = targetOf(account, id, sighting);
  const shadowed = others.map(({ finding }) => finding);
  return { action: actionOf(target), sighting, target, ...owner, silence, shadowed };
}
