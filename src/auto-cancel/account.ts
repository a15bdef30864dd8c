import { hashedId } from '../kit/hash.ts';
import { bareAddress } from '../kit/text.ts';
import type { Tracer } from '../kit/tracer.ts';
import { OBSERVED_FOR } from '../metrics/thresholds.ts';
import type { CallbackFacts, CallbackSighting, Silence } from '../model/callback.ts';
import {
  type AutoCancelNumbers,
  BREAKERS,
  FINAL_OUTCOMES,
  type JournalEntry,
  type JournalTarget,
  type PlanOutcome,
} from '../model/journal.ts';
import type { Store } from '../store/store.ts';
import { isSaneId, type Reader } from '../upstream/api.ts';
import { type Contexts, type ContextsDeps, createContexts, type LastRun } from './context.ts';
import { createDecider, type DecideDeps } from './decide.ts';
import { type EvaluatedCallback, evaluate, modeOf } from './evaluate.ts';
import { type Journal, openJournal } from './journal.ts';
import { endOf, isPlanned, type JournalState, NONE_PLANNED } from './journal-state.ts';
import { actionsLeft, ruleActionsLeft } from './limits.ts';
import { callbackStateOf, createEventLookUps, rereadEntry } from './look-up.ts';
import { createNoticeSource } from './notices.ts';
import { type AutoCancelOptions, MODES, rulesFor } from './options.ts';
import { createDecisionLog, createSettling, type DecisionLog } from './settle.ts';
import { isAboutNextDelivery, skipReason, staleReason } from './stages.ts';
import { waitsForApproval } from './waits.ts';

type Result = readonly [outcome: PlanOutcome, reason: string] | undefined;

/** Reads how a callback ended; undefined if the service does not show an end. */
async function readEnd(target: JournalTarget, reader: Reader, signal: AbortSignal): Promise<Result> {
  const entry = await rereadEntry(reader, target, signal);
  if (entry && entry.callbackMessageId !== target.callbackMessageId) return ['unknown', 'another_episode'];
  const state = callbackStateOf(entry);
  if (state === 'success') return ['success', 'read_success'];
  if (state === 'fail') return ['failed', 'read_fail'];
  return state === 'canceled' || state === 'gone' ? ['unknown', `read_${state}`] : undefined;
}

/**
 * Compares open plans with a complete walk and journals their outcomes. The end of a callback counts as seen only if it
 * is read within `maxGap` after the last walk that found it in progress. `seen`: start of that walk (ms since the Unix epoch),
 * by action. Rejects with StoreError or the signal's reason.
 */
async function observePlans(
  { at: walkAt, sightings, maxGap }: CallbackFacts,
  { journal, reader, clock }: Pick<ContextsDeps, 'journal' | 'clock'> & { readonly reader: Reader },
  { elapsed, stamp }: Contexts['time'],
  seen: Map<string, number>,
  signal: AbortSignal,
): Promise<void> {
  const { open } = journal.state.plans;
  for (const action of seen.keys()) if (!open.has(action)) seen.delete(action);
  if (open.size === 0) return;
  const now = clock.now();
  const found = new Map(sightings.map(({ entry, episode }) => [`${entry.dlqId} ${entry.messageId} ${episode}`, entry]));
  const lines: JournalEntry[] = [];

  for (const [action, { at, rule, target }] of open) {
    const entry = found.get(`${target.dlqId} ${target.messageId} ${target.episode}`);
    const lastSeenAt = entry ? walkAt : (seen.get(action) ?? at);
    let result: Result;
    if (entry) {
      // Setting the wall clock forward must not end the observation.
      const isOver = Math.min(walkAt, elapsed()) - at >= OBSERVED_FOR;
      if (entry.callbackState === undefined) result = ['unknown', 'no_state'];
      else if (isOver) result = ['in_progress', 'observed'];
    } else if (Math.abs(now - lastSeenAt) > maxGap) result = ['unknown', 'end_not_seen'];
    // A failed look-up is repeated after the next walk.
    else result = await readEnd(target, reader, signal).catch(() => undefined);
    signal.throwIfAborted();
    seen.set(action, lastSeenAt);
    if (result)
      lines.push({ at: stamp(), action, step: 'observed', outcome: result[0], reason: result[1], rule, target });
  }
  if (lines.length > 0) await journal.append(lines);
}

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
    // Waits and limits do not apply to planned or sent cancels.
    if (!evaluated || ended || known?.isOpen) return ended ?? (known && 'unresolved');
    if (evaluated.mode === 'plan' && wasPlanned) return 'planned';
    const reason = skipReason(contexts.callback(evaluated, { walkAt, usesBefore: state.uses.length }));
    if (reason !== undefined) return reason;
    // Only an attempt looks up the next delivery, so a reason about that delivery is in the decision of the last attempt.
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

/** Returns the id of the action for an episode. All processes compute the same id. */
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
    callbackMessageId: entry.callbackMessageId,
  };
}

/**
 * Evaluates all rules and selects the most cautious match; undefined if none matches. `latest`: time that is compared with
 * expiry times; `now`: wall clock (ms since the Unix epoch).
 */
function evaluateSighting(
  sighting: CallbackSighting,
  { account, options, latest, now }: Pick<AutoCancelDeps, 'account' | 'options'> & { latest: number; now: number },
  silence: Silence | undefined,
): EvaluatedCallback | undefined {
  const reported = sighting.entry[options.idFrom];
  // An id that cannot be sent counts as missing.
  const id = reported !== undefined && isSaneId(reported) ? reported : undefined;
  const seen = { sighting, id, lastEventAt: undefined, askedAt: now, ...silence };
  const matching = options.rules
    .map(rule => ({ rule, mode: modeOf(rule, options.mode, latest), finding: evaluate(rule, seen) }))
    .filter(({ finding }) => finding.verdict !== 'no_match')
    .sort((a, b) => MODES.indexOf(a.mode) - MODES.indexOf(b.mode));
  const [owner, ...others] = matching;
  if (!owner) return undefined;
  const target = targetOf(account, id, sighting);
  const shadowed = others.map(({ finding }) => finding);
  return { action: actionOf(target), sighting, target, ...owner, silence, shadowed };
}

function journalNumbers(
  options: AutoCancelOptions,
  state: JournalState,
  time: Contexts['time'],
): Omit<AutoCancelNumbers, 'candidates' | 'skips' | 'isPaused'> {
  const { rules } = options;
  const none = rules.flatMap(rule => {
    const [name, mode] = [rule.name, modeOf(rule, options.mode, time.latest())];
    return FINAL_OUTCOMES.map(
      outcome => [`${name}\0${mode}\0${outcome}`, { rule: name, mode, outcome, count: 0 }] as const,
    );
  });
  const unresolved = new Map<string, number>();
  for (const { isOpen, rule, attempts } of state.actions.values()) {
    const at = attempts.at(-1)?.at;
    if (isOpen && at !== undefined) unresolved.set(rule, Math.min(at, unresolved.get(rule) ?? at));
  }
  const now = time.elapsed();
  return {
    actions: [...new Map([...none, ...state.outcomes]).values()],
    plans: new Map([...rules.map(({ name }) => [name, NONE_PLANNED] as const), ...state.plans.rules]),
    breakers: new Map(BREAKERS.map(breaker => [breaker, state.breakers.has(breaker)] as const)),
    unresolved,
    budget: [
      { rule: undefined, left: actionsLeft(options, state, now) },
      ...rules.map(rule => ({ rule: rule.name, left: ruleActionsLeft(rule, state, now) })),
    ],
  };
}

export interface AutoCancelDeps
  extends Omit<ContextsDeps, 'journal'>,
    Pick<DecideDeps, 'writer' | 'lastReader' | 'replica'> {
  readonly store: Store;
  /** Reader for look-ups and read-backs. */
  readonly reader: Reader;
  readonly tracer: Tracer;
}

const RETRY_DELAY_MS = 30_000;

/** Finds stuck failure callbacks of one account and cancels them if rules permit it. */
export type AccountAutoCancel = Awaited<ReturnType<typeof createAutoCancel>>;

/** Opens the journal, or takes over that of the stopped `before`. Rejects with StoreError. */
export async function createAutoCancel(
  deps: AutoCancelDeps,
  before?: { readonly journal: Journal; readonly decisions: DecisionLog; readonly lastRun: LastRun },
) {
  const { account, store, brake, clock, tracer } = deps;
  const options = { ...deps.options, rules: rulesFor(deps.options, account) };
  // Share the journal: two instances would assign the same line numbers.
  const journal = before?.journal ?? (await openJournal(store, account));
  const { state } = journal;
  const contexts = createContexts({ ...deps, options, journal });
  const { stamp, latest } = contexts.time;
  const decisions = before?.decisions ?? createDecisionLog(deps);
  const lastRun = before?.lastRun ?? { walkAt: Number.NaN, usesBefore: 0 };
  const settling = createSettling({ ...deps, journal, decisions, stamp });
  const lookUps = createEventLookUps(deps);
  function evaluateAsOfNow() {
    const asOf = { account, options, latest: latest(), now: clock.now() };
    return (sighting: CallbackSighting) => evaluateSighting(sighting, asOf, lookUps.of(sighting.entry.id));
  }
  const own = { ...deps, options, journal, contexts, evaluateAsOfNow, lookUps, settling, decisions, lastRun };
  const decider = createDecider(own);
  let decidedAt: number | undefined;
  const seenPlans = new Map<string, number>();

  async function runDue(signal: AbortSignal): Promise<void> {
    const { facts: before } = deps.walk();
    const isWalked = before !== undefined && before.at !== decidedAt && staleReason(contexts.account()) === undefined;
    await settling.readBack(isWalked, signal);
    const { facts } = deps.walk();
    if (facts === undefined || facts.at === decidedAt) return;
    await tracer.span('evaluate auto-cancel rules', { account }, () => decider.decide(facts, signal));
    await observePlans(facts, own, contexts.time, seenPlans, signal);
    // Set this last, so that an interrupted decision is repeated.
    decidedAt = facts.at;
  }
  let notBefore = 0;

  return {
    account,
    journal,
    brake,
    decisions,
    lastRun,
    // Pass all rules: an open action may belong to a rule that no longer applies.
    notices: createNoticeSource(account, journal, deps.options.rules),
    /** Whether a rule applies to the account, or whether the journal contains an action or a plan under observation. */
    get isUsed(): boolean {
      return options.rules.length > 0 || state.actions.size > 0 || state.plans.open.size > 0;
    },
    /** Rereads callbacks after sent cancels, and decides once per complete walk. Rejects with StoreError and UpstreamError. */
    async run(signal: AbortSignal): Promise<void> {
      // Detect clock steps even if no decision is due.
      contexts.account();
      if (clock.monotonic() < notBefore) return;
      try {
        // Make sure that the state includes all stored lines.
        await journal.confirm();
        await runDue(signal);
      } catch (error) {
        notBefore = clock.monotonic() + RETRY_DELAY_MS;
        throw error;
      }
    },
    wouldOpen: decider.wouldOpen,
    /** Explains the callback with this dlqId or messageId; undefined if it is not tracked. */
    explain(id: string): Explanation | undefined {
      const { facts } = deps.walk();
      const sighting = facts?.sightings.find(({ entry }) => entry.dlqId === id || entry.messageId === id);
      return facts && sighting && explain(sighting, evaluateAsOfNow()(sighting), facts.at, own);
    },
    /** Yields every tracked callback. `explain` evaluates it again, so that a list of them takes little memory. */
    *tracked() {
      const { facts } = deps.walk();
      for (const sighting of facts?.sightings ?? []) {
        const isStuck = evaluateAsOfNow()(sighting)?.finding.verdict === 'stuck';
        yield { isStuck, explain: () => explain(sighting, evaluateAsOfNow()(sighting), facts?.at ?? 0, own) };
      }
    },
    numbers: (): AutoCancelNumbers => ({
      ...journalNumbers(options, state, contexts.time),
      candidates: decider.stuck(),
      skips: decisions.skips(),
      isPaused: brake.pause !== undefined,
    }),
  };
}
