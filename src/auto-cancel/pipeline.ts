import type { Tracer } from '../kit/tracer.ts';
import type { CallbackFacts, CallbackSighting, Silence } from '../model/callback.ts';
import type { Finding } from '../model/finding.ts';
import type { Breaker, FinalOutcome, JournalEntry } from '../model/journal.ts';
import type { Reader, Writer } from '../upstream/api.ts';
import { type AttemptDeps, attempt, ending } from './attempt.ts';
import { leftAlone, tooMany, tripped } from './brakes.ts';
import { type Judged, judgeSighting, type Mode } from './candidates.ts';
import { createDecisions, type Decisions } from './decisions.ts';
import { createDoubtLog } from './doubt-log.ts';
import { createEventLookUps } from './event-look-ups.ts';
import { createGate, type GateDeps, NEWER_WALK } from './gate.ts';
import type { Action } from './journal-state.ts';
import type { ActingRule } from './options.ts';
import { createSettling } from './settle.ts';

export type { Evidence } from './gate.ts';

export interface PipelineDeps extends GateDeps {
  /** `silence`: what the event log said of the entry's messages, where it was asked. */
  judge(rule: string, sighting: CallbackSighting, id: string | undefined, silence: Silence | undefined): Finding;
  /** The reason by which `judge` says that it only lacks the newest event. */
  readonly lacksEvents: string;
  /** For look-ups and reading back. */
  readonly reader: Reader;
  /** For the last look right before a cancel. */
  readonly lastReader: Reader;
  /** Undefined where no rule may act: nothing can be sent then. */
  readonly writer: Writer | undefined;
  readonly tracer: Tracer;
}

/** Judges the failure callbacks of one account, and acts on those that are stuck, as far as it is allowed to. */
export interface Pipeline {
  readonly decisions: Decisions;
  /** Does what is due: reads back what was sent, and after each complete walk decides. Throws StoreError and UpstreamError. */
  run(signal: AbortSignal): Promise<void>;
  /** Judges one again, without asking the service. */
  judge(sighting: CallbackSighting): Judged | undefined;
  /** Why nothing at all would be done now; undefined when something would. */
  held(): string | undefined;
  /** Why nothing would be done about this one, were it judged stuck by the walk that began at `walkAt`. */
  whyNot(judged: Judged, walkAt: number): string | undefined;
  /** What a rule may do now. */
  modeOf(rule: ActingRule): Mode;
  /** Cancels that the limits leave, of all rules and of each. */
  left(rules: readonly ActingRule[]): { readonly rule: string | undefined; readonly left: number }[];
  /** Stuck callbacks at the last decision, by rule. */
  candidates(): ReadonlyMap<string, number>;
}

/** Milliseconds in which somebody has to approve. */
const APPROVE_WITHIN = 24 * 3_600_000;
/** Milliseconds to wait after a run that failed. */
const PATIENCE = 30_000;

export function createPipeline(deps: PipelineDeps): Pipeline {
  const { account, options, policy, journal, reader, lastReader, writer, clock, log, tracer } = deps;
  const { state } = journal;
  const gate = createGate(deps);
  const { stamp } = gate.time;
  const decisions = createDecisions(deps);
  const settling = createSettling({ journal, reader, clock, stamp });
  const lookUps = createEventLookUps({ reader, clock, log });
  const tellDoubt = createDoubtLog(deps);
  /** Begin of the walk that was last decided upon. */
  let decidedAt: number | undefined;
  /** Not before this, on the monotonic clock: the last run failed. */
  let pausedUntil = 0;
  /** Open actions that may be attempted once more. */
  let again = new Set<string>();
  let stuck: ReadonlyMap<string, number> = new Map(options.rules.map(({ name }) => [name, 0]));
  /** When an attempt of each that is due last came to nothing, on the monotonic clock. */
  let tried = new Map<string, number>();
  /** Uses that the journal had when the walk came that is being decided upon. */
  let run = { at: Number.NaN, from: 0 };

  function judgeOne(sighting: CallbackSighting): Judged | undefined {
    const silence = lookUps.of(sighting.entry.id);
    return judgeSighting(sighting, { account, options, modeOf: gate.modeOf, judge: deps.judge, silence });
  }

  const lacksEvents = ({ finding }: Judged) => finding.reason === deps.lacksEvents;

  async function settleOpen(isWalked: boolean, signal: AbortSignal): Promise<void> {
    const open = [...state.actions.values()].filter(({ isOpen }) => isOpen);
    again = new Set();
    for (const action of open) {
      const settled = await settling.settle(action, isWalked, signal);
      if (settled.kind === 'still_in_progress') again.add(action.id);
      if (settled.kind === 'ended') report(action, settled.outcome);
    }
  }

  function report({ id, rule, mode, target }: Action, outcome: FinalOutcome): void {
    decisions.ended({ action: id, rule, mode, target }, outcome);
  }

  /** What was marked or asked about, and is no longer stuck, is let go. */
  async function clear(judged: readonly Judged[]): Promise<void> {
    const reasons = new Map(judged.map(each => [each.action, each]));
    const lines: JournalEntry[] = [];
    for (const { id, graceUntil, approvalUntil, approvedBy, isOpen } of state.actions.values()) {
      if ((graceUntil === undefined && approvalUntil === undefined) || isOpen) continue;
      const known = reasons.get(id);
      const { finding, sighting } = known ?? {};
      // The log could not say: that is no reason to begin anew.
      const isUnasked =
        finding?.reason === deps.lacksEvents && lookUps.of(sighting?.entry.id ?? '')?.lastEventAt !== 'none';
      const isLate = approvalUntil !== undefined && gate.time.latest() >= approvalUntil;
      const isStuck = finding?.verdict === 'stuck' || isUnasked;
      const isOwn = known !== undefined && gate.own(known) !== undefined;
      if (isStuck && isOwn && !isLate) continue;
      const late = approvedBy === undefined ? 'not_approved' : 'approval_expired';
      const reason = isLate ? late : isStuck ? 'rule_changed' : (finding?.reason ?? 'not_tracked');
      lines.push({ at: stamp(), action: id, step: 'cleared', reason });
    }
    if (lines.length > 0) await journal.append(lines);
  }

  /** What was sent to an episode that is over has no second attempt: what is in progress now is another run, or nobody's. */
  async function giveUpLost(judged: ReadonlySet<string>): Promise<void> {
    for (const id of again) {
      const action = state.actions.get(id);
      if (!action?.isOpen || judged.has(id)) continue;
      const line = { ...action, action: id, rule: { name: action.rule } };
      await journal.append([ending(line, 'gave_up', 'not_tracked', stamp())]);
      report(action, 'gave_up');
    }
  }

  /** Writes that this one begins to wait for time, or for approval. */
  async function beginWait(judged: Judged, why: string): Promise<void> {
    const { action, rule, mode, target, finding } = judged;
    const own = gate.own(judged);
    const line = { at: stamp(), action, rule: rule.name, mode, policy, target, evidence: finding.predicates };
    if (why === 'grace' && own?.graceUntil === undefined) {
      // By the clock that walks count by: where it is set, their episodes begin anew.
      await journal.append([{ ...line, step: 'marked', until: clock.now() + rule.grace }]);
    } else if (why === 'awaiting_approval' && own?.approvalUntil === undefined) {
      await journal.append([{ ...line, step: 'awaiting_approval', until: line.at + APPROVE_WITHIN }]);
    }
  }

  /** Whether there is anything left to decide about it. */
  function isDecided({ action, mode }: Judged): boolean {
    const known = state.actions.get(action);
    if (known?.ended !== undefined) return true;
    if (known?.isOpen) return !again.has(action);
    return mode === 'plan' && known?.isPlanned === true;
  }

  function tellOpened(breaker: Breaker, reason: string | undefined): void {
    log.error({ account, breaker, reason }, 'a breaker of auto-cancel has opened; reset-breaker closes it');
  }

  async function openBreaker(breaker: Breaker, reason: string): Promise<void> {
    await journal.append([{ at: stamp(), step: 'breaker_opened', breaker, reason }]);
    tellOpened(breaker, reason);
  }

  async function trip(): Promise<void> {
    const why = tripped(options.breaker, state, gate.time.elapsed());
    if (why) await openBreaker(why.breaker, why.reason);
  }

  /** Plans or cancels one, that was judged by the walk which began at `walkAt`. */
  async function act(judged: Judged, walkAt: number, signal: AbortSignal): Promise<void> {
    const { action, mode, rule, sighting, target, finding } = judged;
    if (state.actions.get(action)?.isOpen && !gate.maySendAgain(judged)) {
      // Something was sent, and the rule may send nothing more.
      await journal.append([ending(judged, 'gave_up', 'may_no_longer_act', stamp())]);
      decisions.ended({ ...judged, rule: rule.name }, 'gave_up');
      return;
    }
    if (mode === 'plan' || !writer) {
      const line = { ...ending(judged, 'planned', finding.reason, stamp()), evidence: finding.predicates };
      await journal.append([line as JournalEntry]);
      decisions.ended({ ...judged, rule: rule.name }, 'planned');
      return;
    }
    const attemptDeps: AttemptDeps = {
      journal,
      reader: lastReader,
      writer,
      clock,
      log,
      stamp,
      policy,
      approvedBy: gate.own(judged)?.approvedBy,
      judge: silence => deps.judge(rule.name, sighting, target.id, silence),
      whyNot: () => gate.whyNot(judged, walkAt, run.from),
      stop: () => gate.stop(judged, walkAt),
    };
    const done = await attempt(judged, attemptDeps, signal);
    if (!done.made) {
      tried.set(action, clock.monotonic());
      if (done.reason !== NEWER_WALK) decisions.skipped(judged, done.reason);
      return;
    }
    log.info({ account, action, rule: judged.rule.name, answer: done.answer.kind }, 'a cancel was answered');
    if (done.outcome) decisions.ended({ ...judged, rule: judged.rule.name }, done.outcome);
    if (done.outcome === 'rejected') tellOpened('errors', state.breakers.get('errors')?.reason);
    await trip();
  }

  /** Waits until the last cancel is long enough ago. Gives whether that took time. */
  async function space(signal: AbortSignal): Promise<boolean> {
    const { spacing } = options.limits;
    const last = state.uses.findLast(({ isPlan }) => !isPlan)?.at ?? Number.NEGATIVE_INFINITY;
    const left = Math.min(spacing, last + spacing - gate.time.elapsed());
    if (left <= 0) return false;
    await clock.sleep(left, signal);
    return true;
  }

  /** Judges all that a walk has seen. Gives them, and how many may be stuck like the others and could not be asked about. */
  async function judgeAll({ at, sightings }: CallbackFacts, maysAsk: boolean, signal: AbortSignal) {
    const isOvertaken = () => gate.doubt(at) === NEWER_WALK;
    const first = sightings.flatMap(sighting => judgeOne(sighting) ?? []);
    const unread = maysAsk ? await lookUps.ask(first.filter(lacksEvents), isDecided, isOvertaken, signal) : 0;
    const isAsked = ({ sighting }: Judged) => lookUps.of(sighting.entry.id) !== undefined;
    const judged = first.flatMap(each => (isAsked(each) ? (judgeOne(each.sighting) ?? []) : each));
    return { judged, unread };
  }

  /** What is not done about one, and why. */
  async function hold(judged: Judged, why: string): Promise<void> {
    await beginWait(judged, why);
    decisions.skipped(judged, why);
  }

  async function decide(facts: CallbackFacts, signal: AbortSignal): Promise<void> {
    const atFirst = gate.doubt(facts.at);
    if (!atFirst) lookUps.begin();
    const { judged, unread } = await judgeAll(facts, !atFirst && deps.evidence().eventsAreFresh, signal);
    // Looking takes time.
    const why = atFirst ?? gate.doubt(facts.at);
    if (why === NEWER_WALK) {
      lookUps.carryOver();
      return;
    }
    decisions.forgetAllBut(new Set(judged.map(({ action }) => action)));
    const found = judged.filter(({ finding }) => finding.verdict === 'stuck');
    stuck = new Map(
      options.rules.map(({ name }) => [name, found.filter(({ rule }) => rule.name === name).length] as const),
    );
    for (const each of judged) if (each.finding.verdict !== 'stuck') decisions.skipped(each, each.finding.reason);
    if (!why) await clear(judged);
    if (!why) await giveUpLost(new Set(judged.map(({ action }) => action)));
    const due = found.filter(each => !isDecided(each));
    tried = new Map(due.map(({ action }) => [action, tried.get(action) ?? -1]));
    const triedAt = ({ action }: Judged) => tried.get(action) ?? -1;
    // One whose last look outlasts each walk must not keep the others from their turn.
    due.sort((a, b) => triedAt(a) - triedAt(b));
    const crowded = due.filter(each => !leftAlone(each, state, gate.time.elapsed())).length;
    // Whoever could not be looked at may be stuck like the others.
    const count = crowded > 0 ? crowded + unread : 0;
    const crowd = !why && tooMany(options.breaker.candidates, count, judged.length);
    if (crowd && !state.breakers.has('candidates')) await openBreaker('candidates', crowd);
    await trip();
    if (run.at !== facts.at) run = { at: facts.at, from: state.uses.length };
    for (const each of due) {
      signal.throwIfAborted();
      const whyNot = () => why ?? gate.whyNot(each, facts.at, run.from);
      const spaced = async () => each.mode !== 'plan' && (await space(signal));
      const held = whyNot() ?? ((await spaced()) ? whyNot() : undefined);
      // The next run judges by a walk that came meanwhile.
      if (held === NEWER_WALK) return;
      if (held) await hold(each, held);
      else await act(each, facts.at, signal);
    }
  }

  return {
    decisions,
    async run(signal) {
      const why = gate.doubt();
      // Walks are coming.
      tellDoubt(why === 'too_early' ? undefined : why);
      if (clock.monotonic() < pausedUntil) return;
      try {
        const { facts: before } = deps.evidence();
        await settleOpen(before !== undefined && before.at !== decidedAt && gate.doubt() === undefined, signal);
        const { facts } = deps.evidence();
        if (facts === undefined || facts.at === decidedAt) return;
        await tracer.span('evaluate auto-cancel rules', { account }, () => decide(facts, signal));
        // Only now: what was cut off is done again.
        decidedAt = facts.at;
      } catch (error) {
        pausedUntil = clock.monotonic() + PATIENCE;
        throw error;
      }
    },
    judge: judgeOne,
    held: gate.held,
    whyNot: (judged, walkAt) => gate.whyNot(judged, walkAt, state.uses.length),
    modeOf: gate.modeOf,
    left: gate.left,
    candidates: () => stuck,
  };
}
