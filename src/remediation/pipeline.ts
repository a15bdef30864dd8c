import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Tracer } from '../kit/tracer.ts';
import type { CallbackFacts, CallbackSighting } from '../model/callback.ts';
import type { Finding } from '../model/finding.ts';
import type { Breaker, FinalOutcome, JournalEntry } from '../model/journal.ts';
import type { Reader, Writer } from '../upstream/api.ts';
import { type AttemptDeps, attempt, ending } from './attempt.ts';
import { brakeOf, leftAlone, limitOf, tooMany, tripped, waitOf } from './brakes.ts';
import { type Judged, judgeSighting } from './candidates.ts';
import { createDecisions, type Decisions } from './decisions.ts';
import type { Journal } from './journal.ts';
import type { Action } from './journal-state.ts';
import { newestEvent } from './look.ts';
import type { AutoCancelOptions } from './options.ts';
import { createSettling } from './settle.ts';

/** What the board says of an account's failure callbacks now. */
export interface Evidence {
  /** Of the last complete walk; undefined before the first, and when it is too old to be shown. */
  readonly facts: CallbackFacts | undefined;
  /** The last attempt of the walk came to its end, and in time. */
  readonly isFresh: boolean;
  /** So did the last attempt to follow the event log. */
  readonly eventsAreFresh: boolean;
}

export interface PipelineDeps {
  readonly account: string;
  readonly options: AutoCancelOptions;
  /** Hash of the rules. */
  readonly policy: string;
  readonly journal: Journal;
  evidence(): Evidence;
  /** `lastEventAt`: of the newest event of the entry's messages, where that was asked for and could be told. */
  judge(
    rule: string,
    sighting: CallbackSighting,
    id: string | undefined,
    lastEventAt: number | 'none' | undefined,
  ): Finding;
  /** The reason by which `judge` says that it only lacks the newest event. */
  readonly lacksEvents: string;
  readonly reader: Reader;
  /** Undefined where no rule may act: nothing can be sent then. */
  readonly writer: Writer | undefined;
  isStopped(): boolean;
  firing(): ReadonlySet<string>;
  readonly clock: Clock;
  readonly log: Log;
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
  /** Stuck callbacks at the last decision, by rule. */
  candidates(): ReadonlyMap<string, number>;
}

/** Complete walks after the start, or after the clock has stepped, before anything is done. */
const WALKS_BEFORE = 3;
/** Wall time that gains or loses so much on the monotonic clock, milliseconds, has been set. */
const CLOCK_STEP = 30_000;
/** Messages whose events are read after one walk. */
const MOST_LOOKUPS = 25;
/** Milliseconds in which somebody has to approve. */
const APPROVE_WITHIN = 24 * 3_600_000;
/** Milliseconds to wait after a run that failed. */
const PATIENCE = 30_000;

export function createPipeline(deps: PipelineDeps): Pipeline {
  const { account, options, journal, reader, writer, clock, log, tracer } = deps;
  const { state } = journal;
  const decisions = createDecisions(deps);
  const settling = createSettling({ journal, reader, clock });
  /** Wall time less monotonic time. */
  let offset = clock.now() - clock.monotonic();
  /** Complete walks of this process, as far as is known. */
  let walks = 0;
  let walksNeeded = WALKS_BEFORE;
  /** Begin of the walk that was last decided upon. */
  let decidedAt: number | undefined;
  /** Not before this, on the monotonic clock: the last run failed. */
  let pausedUntil = 0;
  /** Open actions that may be attempted once more. */
  let again = new Set<string>();
  let stuck: ReadonlyMap<string, number> = new Map(options.rules.map(({ name }) => [name, 0]));
  const newest = new Map<string, number | 'none' | undefined>();
  /** When the events of an entry were last asked for, on the monotonic clock, and what was said. */
  let asked = new Map<string, { readonly at: number; readonly said: number | 'none' | undefined }>();
  /** Uses that the journal had when the walk came that is being decided upon. */
  let run = { at: Number.NaN, from: 0 };

  function watchClock(facts: CallbackFacts | undefined): void {
    // What is not shown now has not begun anew.
    walks = facts?.walks ?? walks;
    const now = clock.now() - clock.monotonic();
    if (Math.abs(now - offset) > CLOCK_STEP) {
      walksNeeded = walks + WALKS_BEFORE;
      log.warn({ account, seconds: (now - offset) / 1000 }, 'the clock was set: nothing is cancelled for some walks');
    }
    offset = now;
  }

  /** Why the evidence is not to be acted upon. */
  function doubt({ facts, isFresh }: Evidence): string | undefined {
    if (!facts) return 'no_data';
    if (!isFresh) return 'stale';
    if (facts.isPartial) return 'partial';
    return facts.walks < walksNeeded ? 'too_early' : undefined;
  }

  const brake = () => brakeOf(options, state, { now: clock.now(), isStopped: deps.isStopped(), firing: deps.firing() });

  function judgeOne(sighting: CallbackSighting): Judged | undefined {
    const lastEventAt = newest.get(sighting.entry.id);
    const judge = (rule: string, seen: CallbackSighting, id: string | undefined) =>
      deps.judge(rule, seen, id, lastEventAt);
    return judgeSighting(sighting, { account, options, now: clock.now(), judge });
  }

  const judgeAll = ({ sightings }: CallbackFacts) => sightings.flatMap(sighting => judgeOne(sighting) ?? []);

  /** Asks for the newest events of those that lack nothing else. Gives how many it had no room for that may be silent. */
  async function lookUpEvents(judged: readonly Judged[], isFresh: boolean, signal: AbortSignal): Promise<number> {
    if (!isFresh) return 0;
    const lacking = judged.filter(({ finding }) => finding.reason === deps.lacksEvents);
    const before = asked;
    const lastAsked = ({ sighting }: Judged) => before.get(sighting.entry.id)?.at ?? -1;
    // First those about which something is left to decide, and in turn: the others may stay for weeks.
    const sorted = lacking.toSorted(
      (a, b) => Number(isDecided(a)) - Number(isDecided(b)) || lastAsked(a) - lastAsked(b),
    );
    asked = new Map(
      lacking.flatMap(({ sighting: { entry } }) => {
        const known = before.get(entry.id);
        return known ? [[entry.id, known] as const] : [];
      }),
    );
    for (const { sighting } of sorted.slice(0, MOST_LOOKUPS)) {
      const { id, messageId, callbackMessageId } = sighting.entry;
      const messages = [messageId, callbackMessageId].filter(each => each !== undefined);
      try {
        const said = messages.length > 0 ? await newestEvent(reader, messages, signal) : undefined;
        newest.set(id, said);
        asked.set(id, { at: clock.monotonic(), said });
      } catch (error) {
        if (signal.aborted) throw error;
        asked.set(id, { at: clock.monotonic(), said: undefined });
        // Not known, so not acted upon; another walk asks again.
        log.debug({ account, error: String(error) }, 'the events of a message could not be read');
      }
    }
    const mayBeSilent = (each: Judged) => !isDecided(each) && asked.get(each.sighting.entry.id)?.said !== 'none';
    return sorted.slice(MOST_LOOKUPS).filter(mayBeSilent).length;
  }

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
      const { finding, sighting } = reasons.get(id) ?? {};
      // Nobody could say: that is no reason to begin anew.
      const isUnasked = finding?.reason === deps.lacksEvents && sighting && !newest.has(sighting.entry.id);
      const isLate = approvalUntil !== undefined && clock.now() >= approvalUntil;
      if ((finding?.verdict === 'stuck' || isUnasked) && !isLate) continue;
      const late = approvedBy === undefined ? 'not_approved' : 'approval_expired';
      const reason = isLate ? late : (finding?.reason ?? 'not_tracked');
      lines.push({ at: clock.now(), action: id, step: 'cleared', reason });
    }
    if (lines.length > 0) await journal.append(lines);
  }

  /** What was sent to an episode that is over has no second attempt: what is in progress now is another run, or nobody's. */
  async function giveUpLost(judged: ReadonlySet<string>): Promise<void> {
    for (const id of again) {
      const action = state.actions.get(id);
      if (!action?.isOpen || judged.has(id)) continue;
      const line = { ...action, action: id, rule: { name: action.rule } };
      await journal.append([ending(line, 'gave_up', 'not_tracked', clock.now())]);
      report(action, 'gave_up');
    }
  }

  /** Whether this one still waits for time or for somebody: one word when so. Writes the beginning of the wait. */
  async function wait(judged: Judged, walkAt: number): Promise<string | undefined> {
    const { action, rule, target, finding } = judged;
    const why = waitOf(judged, state, walkAt);
    const known = state.actions.get(action);
    const now = clock.now();
    const line = { at: now, action, rule: rule.name, target, evidence: finding.predicates };
    if (why === 'grace' && (known?.graceUntil === undefined || known.rule !== rule.name)) {
      await journal.append([{ ...line, step: 'marked', until: now + rule.grace }]);
    } else if (why === 'awaiting_approval' && known?.approvalUntil === undefined) {
      await journal.append([{ ...line, step: 'awaiting_approval', until: now + APPROVE_WITHIN }]);
    }
    return why;
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
    await journal.append([{ at: clock.now(), step: 'breaker_opened', breaker, reason }]);
    tellOpened(breaker, reason);
  }

  async function trip(): Promise<void> {
    const why = tripped(options.breaker, state, clock.now());
    if (why) await openBreaker(why.breaker, why.reason);
  }

  /** Plans or cancels one. */
  async function act(judged: Judged, signal: AbortSignal): Promise<void> {
    const { action, mode, finding } = judged;
    const known = state.actions.get(action);
    if (known?.isOpen && (mode === 'plan' || (mode === 'approve' && known.approvedBy === undefined))) {
      // Something was sent, and the rule may send nothing more.
      await journal.append([ending(judged, 'gave_up', 'may_no_longer_act', clock.now())]);
      decisions.ended({ ...judged, rule: judged.rule.name }, 'gave_up');
      return;
    }
    if (mode === 'plan' || !writer) {
      const line = { ...ending(judged, 'planned', finding.reason, clock.now()), evidence: finding.predicates };
      await journal.append([line as JournalEntry]);
      decisions.ended({ ...judged, rule: judged.rule.name }, 'planned');
      return;
    }
    const attemptDeps: AttemptDeps = { journal, reader, writer, clock, policy: deps.policy, brake };
    const done = await attempt(judged, attemptDeps, signal);
    if (!done.made) {
      decisions.skipped(judged, done.reason);
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
    const left = Math.min(spacing, last + spacing - clock.now());
    if (left <= 0) return false;
    await clock.sleep(left, signal);
    return true;
  }

  async function decide(evidence: Evidence, facts: CallbackFacts, signal: AbortSignal): Promise<void> {
    const why = doubt(evidence);
    // What was said at an earlier walk is not known now.
    if (!why) newest.clear();
    const first = judgeAll(facts);
    const unread = why ? 0 : await lookUpEvents(first, evidence.eventsAreFresh, signal);
    const isAsked = ({ sighting }: Judged) => newest.has(sighting.entry.id);
    const judged = first.flatMap(each => (isAsked(each) ? (judgeOne(each.sighting) ?? []) : each));
    decisions.forgetAllBut(new Set(judged.map(({ action }) => action)));
    const found = judged.filter(({ finding }) => finding.verdict === 'stuck');
    stuck = new Map(
      options.rules.map(({ name }) => [name, found.filter(({ rule }) => rule.name === name).length] as const),
    );
    for (const each of judged) if (each.finding.verdict !== 'stuck') decisions.skipped(each, each.finding.reason);
    if (!why) await clear(judged);
    if (!why) await giveUpLost(new Set(judged.map(({ action }) => action)));
    const due = found.filter(each => !isDecided(each));
    const crowded = due.filter(each => !leftAlone(each, state, clock.now())).length;
    // Whoever could not be looked at may be stuck like the others.
    const count = crowded > 0 ? crowded + unread : 0;
    const crowd = !why && tooMany(options.breaker.candidates, count, judged.length);
    if (crowd && !state.breakers.has('candidates')) await openBreaker('candidates', crowd);
    await trip();
    if (run.at !== facts.at) run = { at: facts.at, from: state.uses.length };
    for (const each of due) {
      signal.throwIfAborted();
      const holds = async () =>
        why ?? brake() ?? (await wait(each, facts.at)) ?? limitOf(each, options, state, clock.now(), run.from);
      let held = await holds();
      if (!held && each.mode !== 'plan' && (await space(signal))) {
        const later = deps.evidence();
        // The next run judges by a walk that came meanwhile.
        if (later.facts?.at !== facts.at) return;
        held = doubt(later) ?? (await holds());
      }
      if (held) decisions.skipped(each, held);
      else await act(each, signal);
    }
  }

  return {
    decisions,
    async run(signal) {
      const evidence = deps.evidence();
      const { facts } = evidence;
      watchClock(facts);
      if (clock.monotonic() < pausedUntil) return;
      const isWalked = facts !== undefined && facts.at !== decidedAt;
      try {
        await settleOpen(isWalked && doubt(evidence) === undefined, signal);
        if (!isWalked) return;
        await tracer.span('evaluate auto-cancel rules', { account }, () => decide(evidence, facts, signal));
        // Only now: what was cut off is done again.
        decidedAt = facts.at;
      } catch (error) {
        pausedUntil = clock.monotonic() + PATIENCE;
        throw error;
      }
    },
    judge: judgeOne,
    held: () => doubt(deps.evidence()) ?? brake(),
    candidates: () => stuck,
  };
}
