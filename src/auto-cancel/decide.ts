import { createYielder } from '../kit/yielder.ts';
import type { CallbackFacts, CallbackSighting } from '../model/callback.ts';
import type { Breaker } from '../model/journal.ts';
import type { Writer } from '../upstream/api.ts';
import { type AttemptDeps, attempt } from './attempt.ts';
import type { ContextsDeps, LastRun } from './context.ts';
import { type EvaluatedCallback, lacksEvents, modeOf } from './evaluate.ts';
import { endLine, endOf, isPlanned, prune } from './journal-state.ts';
import { blindSkipReason, breakerToOpen, candidateExcess } from './limits.ts';
import type { createEventLookUps } from './look-up.ts';
import type { DecisionLog, Settling } from './settle.ts';
import { NEWER_WALK, skipReason, staleReason } from './stages.ts';
import { clearedWaits, isApproved, waitLine } from './waits.ts';

export interface DecideDeps extends ContextsDeps, Pick<AttemptDeps, 'contexts' | 'lastReader' | 'replica'> {
  /** Returns an evaluator with the current time and the event look-ups made so far. */
  evaluateAsOfNow(): (sighting: CallbackSighting) => EvaluatedCallback | undefined;
  readonly lookUps: ReturnType<typeof createEventLookUps>;
  readonly settling: Settling;
  readonly decisions: DecisionLog;
  readonly lastRun: LastRun;
  /** Undefined if no rule may act. */
  readonly writer: Writer | undefined;
}

/** After each complete walk, starts and ends waits, opens breakers, and plans or sends cancels. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: one decision per step, in the order of a walk.
export function createDecider(deps: DecideDeps) {
  const { account, options, policy, journal, contexts, lookUps, settling, decisions, lastRun, writer, clock, log } =
    deps;
  const { state } = journal;
  const { stamp, elapsed, latest } = contexts.time;
  const turns = createYielder();
  let stuck: ReadonlyMap<string, number> = new Map(options.rules.map(({ name }) => [name, 0]));
  let wouldOpen: string | undefined;
  /** When each action was last processed without making an attempt (monotonic time). */
  let tried = new Map<string, number>();

  /** Calls `work` for each item and yields to the event loop between items. */
  async function inSlices<T>(all: readonly T[], signal: AbortSignal, work: (each: T) => void): Promise<void> {
    for (const each of all) {
      work(each);
      await turns.pass();
      signal.throwIfAborted();
    }
  }

  function isDecided({ action, mode }: Pick<EvaluatedCallback, 'action' | 'mode'>, walkAt: number): boolean {
    if (endOf(state, action) !== undefined) return true;
    const known = state.actions.get(action);
    if (known?.isOpen) {
      // An interrupted decision is repeated with the same walk, which proves nothing about a cancel sent after the walk.
      const isWalked = (known.attempts.at(-1)?.at ?? 0) < walkAt;
      return !isWalked || !settling.mayRetry(action);
    }
    return mode === 'plan' && isPlanned(state, action);
  }

  /** Evaluates all callbacks. `unread`: number of possibly stuck callbacks without an event look-up. */
  async function evaluateAll({ at, sightings }: CallbackFacts, mayLookUp: boolean, signal: AbortSignal) {
    const evaluate = deps.evaluateAsOfNow();
    const first: EvaluatedCallback[] = [];
    // Evaluating ten rules for 8,000 callbacks takes most of a second.
    await inSlices(sightings, signal, sighting => {
      const evaluated = evaluate(sighting);
      if (evaluated) first.push(evaluated);
    });
    const lacking = first.filter(({ finding }) => lacksEvents(finding));
    const isOvertaken = () => staleReason(contexts.account(at)) === NEWER_WALK;
    const unread = mayLookUp ? await lookUps.lookUp(lacking, each => isDecided(each, at), isOvertaken, signal) : 0;
    const hasResult = ({ sighting }: EvaluatedCallback) => lookUps.of(sighting.entry.id) !== undefined;
    const evaluateAgain = deps.evaluateAsOfNow();
    return {
      evaluated: first.flatMap(each => (hasResult(each) ? (evaluateAgain(each.sighting) ?? []) : each)),
      unread,
    };
  }

  async function clearWaits(evaluated: readonly EvaluatedCallback[]): Promise<void> {
    const cleared = clearedWaits(evaluated, state, policy, latest());
    if (cleared.length === 0) return;
    await journal.append(cleared.map(each => ({ at: stamp(), step: 'cleared', ...each })));
  }

  /** Returns undecided callbacks, least recently tried first: one slow callback must not starve the others. */
  function byLastTry(found: readonly EvaluatedCallback[], walkAt: number): readonly EvaluatedCallback[] {
    const due = found.filter(each => !isDecided(each, walkAt));
    tried = new Map(due.map(({ action }) => [action, tried.get(action) ?? -1]));
    const triedAt = ({ action }: EvaluatedCallback) => tried.get(action) ?? -1;
    return due.sort((a, b) => triedAt(a) - triedAt(b));
  }

  function logOpened(breaker: Breaker, reason: string | undefined): void {
    log.error(
      { account, breaker, reason },
      'auto-cancel breaker opened: cancels are suspended until an operator runs reset-breaker',
    );
  }

  async function openBreaker(breaker: Breaker, reason: string): Promise<void> {
    await journal.append([{ at: stamp(), step: 'breaker_opened', breaker, reason }]);
    logOpened(breaker, reason);
  }

  async function checkCancelBreakers(): Promise<void> {
    const found = breakerToOpen(options.breaker, state, elapsed());
    if (found) await openBreaker(found.breaker, found.reason);
  }

  /**
   * Opens the `candidates` breaker if too many callbacks are due, including callbacks of planning rules. If no rule may act,
   * records instead why the breaker would open. `found`: all stuck callbacks.
   */
  async function checkCandidates(
    found: readonly EvaluatedCallback[],
    walkAt: number,
    unread: number,
    population: number,
  ): Promise<void> {
    const mayAct = options.rules.some(rule => modeOf(rule, options.mode, latest()) !== 'plan');
    // Planned callbacks become candidates when their rule may act.
    const due = found.filter(({ action, mode }) => !isDecided({ action, mode: mayAct ? mode : 'enforce' }, walkAt));
    const crowded = due.filter(each => !blindSkipReason(each, state, elapsed())).length;
    const reason = candidateExcess(options.breaker.candidates, crowded > 0 ? crowded + unread : 0, population);
    wouldOpen = mayAct ? undefined : reason;
    if (mayAct && reason && !state.breakers.has('candidates')) await openBreaker('candidates', reason);
  }

  /** Waits for the configured spacing between cancels. Returns whether it had to wait. */
  async function waitForSpacing(signal: AbortSignal): Promise<boolean> {
    const { spacing } = options.limits;
    const last = state.uses.findLast(({ isPlan }) => !isPlan)?.at ?? Number.NEGATIVE_INFINITY;
    const left = Math.min(spacing, last + spacing - elapsed());
    if (left <= 0) return false;
    await clock.sleep(left, signal);
    return true;
  }

  /** Skips a callback. Records the start of a wait in the journal. */
  async function skip(evaluated: EvaluatedCallback, reason: string): Promise<void> {
    if (reason === 'grace' || reason === 'awaiting_approval') {
      const { own } = contexts.callback(evaluated, lastRun);
      const line = waitLine(reason, evaluated, own, { policy, wall: clock.now(), stamp: stamp() });
      if (line) await journal.append([line]);
    }
    decisions.skipped(evaluated, reason);
  }

  /** Whether rule, mode and policy are unchanged and any required approval is still valid. */
  function maySendAgain(evaluated: EvaluatedCallback): boolean {
    const { own } = contexts.callback(evaluated, lastRun);
    return (
      own !== undefined && evaluated.mode !== 'plan' && (evaluated.mode !== 'approve' || isApproved(own, latest()))
    );
  }

  async function act(evaluated: EvaluatedCallback, signal: AbortSignal): Promise<void> {
    const { action, mode, rule, target, finding } = evaluated;
    const open = state.actions.get(action);
    if (open?.isOpen && !maySendAgain(evaluated)) {
      await settling.end({ ...open, rule: rule.name, mode, target }, 'gave_up', 'may_no_longer_act');
      return;
    }
    const ref = { action, rule: rule.name, mode, target };
    if (mode === 'plan' || !writer) {
      const line = endLine(ref, 'planned', finding.reason, stamp());
      await journal.append([{ ...line, evidence: finding.predicates }]);
      decisions.ended(ref, 'planned');
      return;
    }
    const done = await attempt(evaluated, lastRun, { ...deps, writer }, signal);
    if (!done.made) {
      tried.set(action, clock.monotonic());
      if (done.reason !== NEWER_WALK) decisions.skipped(evaluated, done.reason);
      return;
    }
    log.info({ account, action, rule: rule.name, answer: done.answer.kind }, 'the service responded to a cancel');
    if (done.outcome) decisions.ended(ref, done.outcome);
    if (done.answer.kind === 'denied') logOpened('errors', state.breakers.get('errors')?.reason);
    await checkCancelBreakers();
  }

  /** Acts on due callbacks. `stale`: reason to skip all of them, or undefined. */
  async function actOn(
    due: readonly EvaluatedCallback[],
    stale: string | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    for (const each of due) {
      await turns.pass();
      signal.throwIfAborted();
      const reasonNow = () => stale ?? skipReason(contexts.callback(each, lastRun));
      let reason = reasonNow();
      if (!reason && each.mode !== 'plan' && (await waitForSpacing(signal))) reason = reasonNow();
      // The next decision uses the newer walk.
      if (reason === NEWER_WALK) return;
      if (reason) await skip(each, reason);
      else await act(each, signal);
    }
  }

  return {
    /** Returns the number of stuck callbacks at the last decision, by rule. */
    stuck: (): ReadonlyMap<string, number> => stuck,
    /** Returns why the last decision would have opened the `candidates` breaker if a rule could act; undefined if a rule can. */
    wouldOpen: (): string | undefined => wouldOpen,
    /** Decides on a complete walk. Rejects with StoreError or the signal's reason; it may then be called again. */
    async decide(facts: CallbackFacts, signal: AbortSignal): Promise<void> {
      const { at } = facts;
      const staleBefore = staleReason(contexts.account(at));
      if (!staleBefore) lookUps.startWalk();
      const mayLookUp = !staleBefore && deps.walk().eventsAreFresh;
      const { evaluated, unread } = await evaluateAll(facts, mayLookUp, signal);
      const stale = staleBefore ?? staleReason(contexts.account(at));
      if (stale === NEWER_WALK) {
        lookUps.carryOver();
        return;
      }
      const actions = new Set(evaluated.map(({ action }) => action));
      decisions.retainOnly(actions);
      const found = evaluated.filter(({ finding }) => finding.verdict === 'stuck');
      stuck = new Map(
        options.rules.map(({ name }) => [name, found.filter(({ rule }) => rule.name === name).length] as const),
      );
      if (!stale) {
        await clearWaits(evaluated);
        await settling.giveUpLost(actions);
      }
      const due = byLastTry(found, at);
      if (!stale) await checkCandidates(found, at, unread, evaluated.length);
      await checkCancelBreakers();
      if (lastRun.walkAt !== at) {
        // Prune only here: `usesBefore` is an index into the uses.
        prune(state, elapsed());
        Object.assign(lastRun, { walkAt: at, usesBefore: state.uses.length });
      }
      await inSlices(evaluated, signal, each => {
        if (each.finding.verdict !== 'stuck') decisions.skipped(each, each.finding.reason);
      });
      await actOn(due, stale, signal);
    },
  };
}
