import { createTurns } from '../kit/turns.ts';
import type { CallbackFacts, CallbackSighting } from '../model/callback.ts';
import type { Breaker } from '../model/journal.ts';
import type { Reader, Writer } from '../upstream/api.ts';
import { attempt } from './attempt.ts';
import { leftAlone, tooMany, tripped } from './brakes.ts';
import type { DecisionLog } from './decision-log.ts';
import { endLine, endOf, isPlanned, prune } from './journal-state.ts';
import { type Judged, lacksEvents } from './judge.ts';
import type { createEventLookUps } from './look.ts';
import type { LastRun, Moments, MomentsDeps } from './moments.ts';
import type { Settling } from './settle.ts';
import { NEWER_WALK, skipReason, staleReason } from './stages.ts';
import { clearedWaits, isApproved, waitLine } from './waits.ts';

export interface DecideDeps extends MomentsDeps {
  readonly moments: Moments;
  /** Judges sightings as of now, however long that takes, with the event look-ups made so far. */
  judgeAsOfNow(): (sighting: CallbackSighting) => Judged | undefined;
  readonly lookUps: ReturnType<typeof createEventLookUps>;
  readonly settling: Settling;
  readonly decisions: DecisionLog;
  readonly lastRun: LastRun;
  readonly lastReader: Reader;
  readonly writer: Writer | undefined;
  readonly replica?: string | undefined;
}

/** Decides upon complete walks: what begins or ends to wait, which breakers open, what is planned and what is cancelled. */
export function createDecider(deps: DecideDeps) {
  const { account, options, policy, journal, moments, lookUps, settling, decisions, lastRun, writer, clock, log } =
    deps;
  const { state } = journal;
  const { stamp, elapsed, latest } = moments.time;
  const turns = createTurns();
  let stuck: ReadonlyMap<string, number> = new Map(options.rules.map(({ name }) => [name, 0]));
  /** When an attempt of each that is due last came to nothing, on the monotonic clock. */
  let tried = new Map<string, number>();

  /** Other work runs between slices. Throws the signal's reason. */
  async function inSlices<T>(all: readonly T[], signal: AbortSignal, work: (each: T) => void): Promise<void> {
    for (const each of all) {
      work(each);
      await turns.pass();
      signal.throwIfAborted();
    }
  }

  /** Whether there is anything left to decide about it upon the walk that began at `walkAt` (ms since the Unix epoch). */
  function isDecided({ action, mode }: Judged, walkAt: number): boolean {
    if (endOf(state, action) !== undefined) return true;
    const known = state.actions.get(action);
    if (known?.isOpen) {
      // A decision that was cut off is made again upon the same walk, which proves nothing about a later cancel.
      const isWalked = (known.attempts.at(-1)?.at ?? 0) < walkAt;
      return !isWalked || !settling.mayRetry(action);
    }
    return mode === 'plan' && isPlanned(state, action);
  }

  /** Judges all that a walk has seen. `unread`: how many may be stuck like the others, and there was no time to ask the event log. */
  async function judgeAll({ at, sightings }: CallbackFacts, mayAsk: boolean, signal: AbortSignal) {
    const judge = deps.judgeAsOfNow();
    const first: Judged[] = [];
    // In slices: ten rules for 8,000 callbacks take most of a second.
    await inSlices(sightings, signal, sighting => {
      const judged = judge(sighting);
      if (judged) first.push(judged);
    });
    const lacking = first.filter(({ finding }) => lacksEvents(finding));
    const isOvertaken = () => staleReason(moments.account(at)) === NEWER_WALK;
    const unread = mayAsk ? await lookUps.ask(lacking, each => isDecided(each, at), isOvertaken, signal) : 0;
    const isAsked = ({ sighting }: Judged) => lookUps.of(sighting.entry.id) !== undefined;
    const judgeAgain = deps.judgeAsOfNow();
    return { judged: first.flatMap(each => (isAsked(each) ? (judgeAgain(each.sighting) ?? []) : each)), unread };
  }

  async function clearWaits(judged: readonly Judged[]): Promise<void> {
    const cleared = clearedWaits(judged, state, policy, latest());
    if (cleared.length === 0) return;
    await journal.append(cleared.map(each => ({ at: stamp(), step: 'cleared', ...each })));
  }

  /** Those that are left to decide about. One whose final check outlasts each walk must not keep the others from their turn. */
  function inTurn(found: readonly Judged[], walkAt: number): readonly Judged[] {
    const due = found.filter(each => !isDecided(each, walkAt));
    tried = new Map(due.map(({ action }) => [action, tried.get(action) ?? -1]));
    const triedAt = ({ action }: Judged) => tried.get(action) ?? -1;
    return due.sort((a, b) => triedAt(a) - triedAt(b));
  }

  function logOpened(breaker: Breaker, reason: string | undefined): void {
    log.error(
      { account, breaker, reason },
      'auto-cancel breaker opened: nothing is cancelled until an operator runs reset-breaker',
    );
  }

  async function openBreaker(breaker: Breaker, reason: string): Promise<void> {
    await journal.append([{ at: stamp(), step: 'breaker_opened', breaker, reason }]);
    logOpened(breaker, reason);
  }

  async function checkCancels(): Promise<void> {
    const found = tripped(options.breaker, state, elapsed());
    if (found) await openBreaker(found.breaker, found.reason);
  }

  /** Opens the breaker of candidates where too many are due. `unread`: how many more may be stuck, and were not asked about. */
  async function checkCandidates(due: readonly Judged[], unread: number, population: number): Promise<void> {
    const crowded = due.filter(each => !leftAlone(each, state, elapsed())).length;
    const reason = tooMany(options.breaker.candidates, crowded > 0 ? crowded + unread : 0, population);
    if (reason && !state.breakers.has('candidates')) await openBreaker('candidates', reason);
  }

  /** Waits until the last cancel is long enough ago. Gives whether that took time. */
  async function space(signal: AbortSignal): Promise<boolean> {
    const { spacing } = options.limits;
    const last = state.uses.findLast(({ isPlan }) => !isPlan)?.at ?? Number.NEGATIVE_INFINITY;
    const left = Math.min(spacing, last + spacing - elapsed());
    if (left <= 0) return false;
    await clock.sleep(left, signal);
    return true;
  }

  /** Skips a callback. If it starts to wait for grace or approval, the journal records that. */
  async function skip(judged: Judged, reason: string): Promise<void> {
    if (reason === 'grace' || reason === 'awaiting_approval') {
      const { own } = moments.callback(judged, lastRun);
      const line = waitLine(reason, judged, own, { policy, wall: clock.now(), stamp: stamp() });
      if (line) await journal.append([line]);
    }
    decisions.skipped(judged, reason);
  }

  /** Whether what was sent may be sent once more: its rule, mode and policy are the same, and an approval still holds. */
  function maySendAgain(judged: Judged): boolean {
    const { own } = moments.callback(judged, lastRun);
    return own !== undefined && judged.mode !== 'plan' && (judged.mode !== 'approve' || isApproved(own, latest()));
  }

  async function act(judged: Judged, signal: AbortSignal): Promise<void> {
    const { action, mode, rule, target, finding } = judged;
    const open = state.actions.get(action);
    if (open?.isOpen && !maySendAgain(judged)) {
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
    const done = await attempt(judged, lastRun, { ...deps, writer }, signal);
    if (!done.made) {
      tried.set(action, clock.monotonic());
      if (done.reason !== NEWER_WALK) decisions.skipped(judged, done.reason);
      return;
    }
    log.info({ account, action, rule: rule.name, answer: done.answer.kind }, 'the service answered a cancel');
    if (done.outcome) decisions.ended(ref, done.outcome);
    if (done.outcome === 'rejected') logOpened('errors', state.breakers.get('errors')?.reason);
    await checkCancels();
  }

  /** What was found stuck, one after the other. `stale`: why nothing is done about any. */
  async function actOn(due: readonly Judged[], stale: string | undefined, signal: AbortSignal): Promise<void> {
    for (const each of due) {
      await turns.pass();
      signal.throwIfAborted();
      const reasonNow = () => stale ?? skipReason(moments.callback(each, lastRun));
      let reason = reasonNow();
      if (!reason && each.mode !== 'plan' && (await space(signal))) reason = reasonNow();
      // The next decision is upon the walk that came meanwhile.
      if (reason === NEWER_WALK) return;
      if (reason) await skip(each, reason);
      else await act(each, signal);
    }
  }

  return {
    /** Stuck callbacks at the last decision, by rule. */
    stuck: (): ReadonlyMap<string, number> => stuck,
    /** Rejects with StoreError, and when the signal is aborted; what was cut off may be done again. */
    async decide(facts: CallbackFacts, signal: AbortSignal): Promise<void> {
      const { at } = facts;
      const staleBefore = staleReason(moments.account(at));
      if (!staleBefore) lookUps.begin();
      const mayAsk = !staleBefore && deps.walk().eventsAreFresh;
      const { judged, unread } = await judgeAll(facts, mayAsk, signal);
      // Asking takes time.
      const stale = staleBefore ?? staleReason(moments.account(at));
      if (stale === NEWER_WALK) {
        lookUps.carryOver();
        return;
      }
      const actions = new Set(judged.map(({ action }) => action));
      decisions.forgetAllBut(actions);
      const found = judged.filter(({ finding }) => finding.verdict === 'stuck');
      stuck = new Map(
        options.rules.map(({ name }) => [name, found.filter(({ rule }) => rule.name === name).length] as const),
      );
      if (!stale) {
        await clearWaits(judged);
        await settling.giveUpLost(actions);
      }
      const due = inTurn(found, at);
      if (!stale) await checkCandidates(due, unread, judged.length);
      await checkCancels();
      if (lastRun.walkAt !== at) {
        // Only here: `usesBefore` counts the uses that are kept.
        prune(state, elapsed());
        Object.assign(lastRun, { walkAt: at, usesBefore: state.uses.length });
      }
      await inSlices(judged, signal, each => {
        if (each.finding.verdict !== 'stuck') decisions.skipped(each, each.finding.reason);
      });
      await actOn(due, stale, signal);
    },
  };
}
