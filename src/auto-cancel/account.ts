import { hashedId } from '../kit/hash.ts';
import { bareAddress } from '../kit/text.ts';
import type { Tracer } from '../kit/tracer.ts';
import type { CallbackSighting, Silence } from '../model/callback.ts';
import { type AutoCancelNumbers, BREAKERS, FINAL_OUTCOMES, type JournalTarget } from '../model/journal.ts';
import type { Store } from '../store/store.ts';
import { isSaneId, type Reader, type Writer } from '../upstream/api.ts';
import { type Contexts, type ContextsDeps, createContexts, type LastRun } from './context.ts';
import { createDecider } from './decide.ts';
import { createDecisionLog, type DecisionLog } from './decision-log.ts';
import { type EvaluatedCallback, evaluate, modeOf } from './evaluate.ts';
import { type Explanation, explain } from './explain.ts';
import { type Journal, openJournal } from './journal.ts';
import type { JournalState } from './journal-state.ts';
import { actionsLeft, ruleActionsLeft } from './limits.ts';
import { createEventLookUps } from './look-up.ts';
import { createNoticeSource } from './notices.ts';
import { observePlans } from './observe.ts';
import { type AutoCancelOptions, MODES, rulesFor } from './options.ts';
import { sumOfPlans } from './plans.ts';
import { createSettling } from './settle.ts';
import { staleReason } from './stages.ts';

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
    plans: new Map([...rules.map(({ name }) => [name, sumOfPlans([])] as const), ...state.plans.rules]),
    breakers: new Map(BREAKERS.map(breaker => [breaker, state.breakers.has(breaker)] as const)),
    unresolved,
    budget: [
      { rule: undefined, left: actionsLeft(options, state, now) },
      ...rules.map(rule => ({ rule: rule.name, left: ruleActionsLeft(rule, state, now) })),
    ],
  };
}

export interface AutoCancelDeps extends Omit<ContextsDeps, 'journal'> {
  readonly store: Store;
  /** Reader for look-ups and read-backs. */
  readonly reader: Reader;
  /** Reader for the final check and the look-up of the next delivery before a cancel. */
  readonly lastReader: Reader;
  /** Undefined if no rule may act. */
  readonly writer: Writer | undefined;
  readonly replica?: string | undefined;
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

  async function runDue(signal: AbortSignal): Promise<void> {
    const { facts: before } = deps.walk();
    const isWalked = before !== undefined && before.at !== decidedAt && staleReason(contexts.account()) === undefined;
    await settling.readBack(isWalked, signal);
    const { facts } = deps.walk();
    if (facts === undefined || facts.at === decidedAt) return;
    await tracer.span('evaluate auto-cancel rules', { account }, () => decider.decide(facts, signal));
    await observePlans(facts, own, contexts.time, signal);
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
    /** Whether a rule applies to the account or the journal contains an action or a plan under observation. */
    get isUsed(): boolean {
      return options.rules.length > 0 || state.actions.size > 0 || state.plans.open.size > 0;
    },
    /** Reads sent cancels back, and decides once per complete walk. Rejects with StoreError and UpstreamError. */
    async run(signal: AbortSignal): Promise<void> {
      const stale = staleReason(contexts.account());
      // Too few walks are normal after startup: do not log that.
      decisions.stale(stale === 'too_early' ? undefined : stale);
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
    /** Yields every tracked callback and evaluates it lazily. */
    *tracked() {
      const { facts } = deps.walk();
      for (const sighting of facts?.sightings ?? []) {
        const evaluated = evaluateAsOfNow()(sighting);
        const isStuck = evaluated?.finding.verdict === 'stuck';
        yield { isStuck, explain: () => explain(sighting, evaluated, facts?.at ?? 0, own) };
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
