import type { Tracer } from '../kit/tracer.ts';
import type { CallbackSighting } from '../model/callback.ts';
import { type AutoCancelNumbers, BREAKERS, FINAL_OUTCOMES } from '../model/journal.ts';
import type { Outbox } from '../notify/outbox.ts';
import type { Store } from '../store/store.ts';
import type { Reader, Writer } from '../upstream/api.ts';
import type { Brake } from './brake.ts';
import { actionsLeft, ruleActionsLeft } from './brakes.ts';
import { judgeSighting } from './candidates.ts';
import { createDecider } from './decide.ts';
import { createDecisionLog, type DecisionLog } from './decision-log.ts';
import { createEventLookUps } from './event-look-ups.ts';
import { type Explanation, explain, sightingOf } from './explain.ts';
import { type Journal, openJournal } from './journal.ts';
import type { JournalState } from './journal-state.ts';
import { type Judged, modeOf } from './judge.ts';
import type { LimitClock } from './limit-clock.ts';
import { createMoments, type LastRun, type MomentsDeps } from './moments.ts';
import { createNotices } from './notices.ts';
import { type AutoCancelOptions, rulesFor } from './options.ts';
import { createSettling } from './settle.ts';
import { skipReason, staleReason } from './stages.ts';
import { waitsForApproval } from './waits.ts';

function journalNumbers(
  options: AutoCancelOptions,
  state: JournalState,
  time: LimitClock,
): Omit<AutoCancelNumbers, 'candidates' | 'skips' | 'isPaused'> {
  const { rules } = options;
  const actions = new Map<string, { rule: string; mode: string; outcome: string; count: number; since?: number }>();
  for (const rule of rules) {
    const [name, mode] = [rule.name, modeOf(rule, options.mode, time.latest())];
    for (const outcome of FINAL_OUTCOMES) {
      actions.set(`${name}\0${mode}\0${outcome}`, { rule: name, mode, outcome, count: 0 });
    }
  }
  for (const [key, each] of state.outcomes) actions.set(key, each);
  const unresolved = new Map<string, number>();
  for (const { isOpen, rule, attempts } of state.actions.values()) {
    const at = attempts.at(-1)?.at;
    if (isOpen && at !== undefined) unresolved.set(rule, Math.min(at, unresolved.get(rule) ?? at));
  }
  const now = time.elapsed();
  return {
    actions: [...actions.values()],
    breakers: new Map(BREAKERS.map(breaker => [breaker, state.breakers.has(breaker)] as const)),
    unresolved,
    budget: [
      { rule: undefined, left: actionsLeft(options, state, now) },
      ...rules.map(rule => ({ rule: rule.name, left: ruleActionsLeft(rule, state, now) })),
    ],
  };
}

/** The door of this room: auto-cancel of one account, and the commands that operators give it. */
export { LEASE_MARGIN } from './attempt.ts';
export {
  type Brake,
  createBrake,
  linesOfStops,
  type PauseDeps,
  pauseAutoCancel,
  resumeAutoCancel,
} from './brake.ts';
export type { Explanation } from './explain.ts';
export { newestLines, readJournal, readJournalState, storedLines } from './journal.ts';
export { modeOf } from './judge.ts';
export { mayBeThere } from './moments.ts';
export { createOrders, orderApproval, orderReset, type PlacingDeps, resultOf } from './orders.ts';
export type { Lease, WalkView } from './stages.ts';
export { type PendingAction, pendingActions } from './waits.ts';
export { heldText, sentenceOf } from './words.ts';

export interface AutoCancelDeps extends Omit<MomentsDeps, 'journal'> {
  readonly store: Store;
  /** Takes notices for the notifiers of rules, in the journal's transactions. */
  readonly outbox: Pick<Outbox, 'post'>;
  /** For look-ups and reading back. */
  readonly reader: Reader;
  /** For the final check right before a cancel. */
  readonly lastReader: Reader;
  /** Undefined where no rule may act: nothing can be sent then. */
  readonly writer: Writer | undefined;
  /** This one, where replicas share the store. */
  readonly replica?: string | undefined;
  readonly tracer: Tracer;
}

export interface Tracked {
  readonly isStuck: boolean;
  explain(): Explanation;
}

/** Judges the failure callbacks of one account, and acts on those that are stuck, as far as it is allowed to. */
export interface AutoCancel {
  readonly account: string;
  readonly journal: Journal;
  readonly brake: Brake;
  /** Its counts outlast it. */
  readonly decisions: DecisionLog;
  /** So does what its limits of a walk count from. */
  readonly lastRun: LastRun;
  /** To be called before the first run where there was one before: lines of the journal are told to the notifiers of its rules. */
  begin(): void;
  /** Whether there is anything to run: a rule for the account, or something in its journal. */
  readonly isUsed: boolean;
  /** Does what is due: reads back what was sent, and after each complete walk decides. Throws StoreError and UpstreamError. */
  run(signal: AbortSignal): Promise<void>;
  /** Why the callback with this dlqId or messageId is or is not acted upon; undefined when it is not tracked. */
  explain(id: string): Explanation | undefined;
  /** Every callback that is tracked, each judged as it is taken. */
  tracked(): Iterable<Tracked>;
  numbers(): AutoCancelNumbers;
}

/** Milliseconds to wait after a run that failed. */
const RETRY_DELAY_MS = 30_000;

/** Opens the account's journal, or continues with the journal of `before` after the end of its loop. Rejects with StoreError or for a damaged line. */
export async function createAutoCancel(
  deps: AutoCancelDeps,
  before?: Pick<AutoCancel, 'journal' | 'decisions' | 'lastRun'>,
): Promise<AutoCancel> {
  const { account, store, outbox, clock, tracer } = deps;
  const options = { ...deps.options, rules: rulesFor(deps.options, account) };
  // Of all rules: what is open may be of one that is no longer for the account.
  const notices = createNotices(account, deps.options.rules, outbox);
  // Never two of one account: each would number its lines by itself.
  const journal = before?.journal ?? (await openJournal(store, account, notices));
  const { state } = journal;
  const moments = createMoments({ ...deps, options, journal });
  const { stamp, latest } = moments.time;
  const decisions = before?.decisions ?? createDecisionLog(deps);
  const lastRun = before?.lastRun ?? { walkAt: Number.NaN, usesBefore: 0 };
  const settling = createSettling({ ...deps, journal, decisions, stamp });
  const lookUps = createEventLookUps(deps);
  function judgeAsOfNow() {
    const asOf = { account, options, latest: latest(), now: clock.now() };
    return (sighting: CallbackSighting) => judgeSighting(sighting, { ...asOf, silence: lookUps.of(sighting.entry.id) });
  }
  const decider = createDecider({
    ...deps,
    options,
    journal,
    moments,
    judgeAsOfNow,
    lookUps,
    settling,
    decisions,
    lastRun,
  });
  /** Begin of the walk that was last decided upon. */
  let decidedAt: number | undefined;
  /** On the monotonic clock. */
  let notBefore = 0;

  async function runDue(signal: AbortSignal): Promise<void> {
    const { facts: before } = deps.walk();
    const isWalked = before !== undefined && before.at !== decidedAt && staleReason(moments.account()) === undefined;
    await settling.readBack(isWalked, signal);
    const { facts } = deps.walk();
    if (facts === undefined || facts.at === decidedAt) return;
    await tracer.span('evaluate auto-cancel rules', { account }, () => decider.decide(facts, signal));
    // Only now: what was cut off is done again.
    decidedAt = facts.at;
  }

  function explainNow(sighting: CallbackSighting, judged: Judged | undefined, walkAt: number): Explanation {
    return explain(sighting, judged, {
      account,
      journal,
      paused: deps.brake.pause,
      skipReason: of => skipReason(moments.callback(of, { walkAt, usesBefore: state.uses.length })),
      mayApprove: action =>
        action.approvedBy === undefined &&
        action.asker?.policy === deps.policy &&
        waitsForApproval(action, clock.now()),
    });
  }

  return {
    account,
    journal,
    brake: deps.brake,
    decisions,
    lastRun,
    begin: () => journal.notify(notices),
    get isUsed() {
      return options.rules.length > 0 || state.actions.size > 0;
    },
    async run(signal) {
      const stale = staleReason(moments.account());
      // Right after the start walks are coming.
      decisions.stale(stale === 'too_early' ? undefined : stale);
      if (clock.monotonic() < notBefore) return;
      try {
        // Nothing is decided on a state that may lack lines.
        await journal.confirm();
        await runDue(signal);
      } catch (error) {
        notBefore = clock.monotonic() + RETRY_DELAY_MS;
        throw error;
      }
    },
    explain(id) {
      const { facts } = deps.walk();
      const sighting = sightingOf(id, facts);
      return facts && sighting && explainNow(sighting, judgeAsOfNow()(sighting), facts.at);
    },
    *tracked() {
      const { facts } = deps.walk();
      for (const sighting of facts?.sightings ?? []) {
        const judged = judgeAsOfNow()(sighting);
        const isStuck = judged?.finding.verdict === 'stuck';
        yield { isStuck, explain: () => explainNow(sighting, judged, facts?.at ?? 0) };
      }
    },
    numbers: () => ({
      ...journalNumbers(options, state, moments.time),
      candidates: decider.stuck(),
      skips: decisions.skips(),
      isPaused: deps.brake.pause !== undefined,
    }),
  };
}
