import { zeroBefore } from '../kit/counter.ts';
import { hashedId } from '../kit/hash.ts';
import type { Asker, Breaker, CancelAnswer, FinalOutcome, JournalEntry, JournalTarget } from '../model/journal.ts';

/** One attempt to cancel: an intent, and what came of it. Times: milliseconds since the Unix epoch. */
export interface Attempt {
  readonly number: number;
  readonly at: number;
  readonly answer: CancelAnswer | undefined;
  readonly answeredAt: number | undefined;
}

/** Where one action stands: everything that was written of it. */
export interface Action {
  readonly id: string;
  readonly target: JournalTarget;
  readonly rule: string;
  readonly mode: 'plan' | 'approve' | 'enforce';
  readonly blind: boolean;
  /** Whose the grace, the approval or the attempts are; undefined when there are none, or as an old line does not tell. */
  readonly asker: Asker | undefined;
  /** Until when its grace runs; undefined when it is not marked. */
  readonly graceUntil: number | undefined;
  /** Until when it may be approved; undefined when it waits for no approval. */
  readonly approvalUntil: number | undefined;
  readonly approvedBy: string | undefined;
  readonly isPlanned: boolean;
  readonly attempts: readonly Attempt[];
  /** An intent without an end: nothing more is sent before that is settled. */
  readonly isOpen: boolean;
  /** How it ended for good; undefined when it may still be acted upon. */
  readonly ended: FinalOutcome | undefined;
}

export type ActionRef = Pick<Extract<JournalEntry, { step: 'ended' }>, 'action' | 'rule' | 'mode' | 'target'>;

export const refOf = ({ id, rule, mode, target }: Action): ActionRef => ({ action: id, rule, mode, target });

/** The line that ends an action. `at`: milliseconds since the Unix epoch. */
export function endLine(
  { action, rule, mode, target }: ActionRef,
  outcome: FinalOutcome,
  reason: string,
  at: number,
): Extract<JournalEntry, { step: 'ended' }> {
  return { at, action, step: 'ended', outcome, rule, mode, reason, target };
}

/** Something that counts against the limits: an intent, or in plan mode what would have been one. */
export interface Use {
  readonly at: number;
  readonly rule: string;
  readonly url: string | undefined;
  readonly isPlan: boolean;
}

/** What is kept of an action that needs no further step. */
export interface ClosedAction {
  /** Its final outcome, or `planned` if it may still be acted upon. */
  readonly outcome: FinalOutcome;
  readonly attempts: number;
}

/** The journal, folded: what decisions need. `prune` drops everything else. */
export interface JournalState {
  /** The latest time that a line has, milliseconds since the Unix epoch: a command’s has the wall clock’s, which may have been set back. */
  lastAt: number;
  /** Actions that wait or are open, that had an attempt within a year and no end, or that were not pruned yet. */
  readonly actions: Map<string, Action>;
  /** All other actions that were planned or ended, by id. Never dropped: an action is taken once. */
  readonly closed: Map<string, ClosedAction>;
  /** The pruned action that sent a cancel, by episode; '' if there were several. Never dropped. */
  readonly senders: Map<string, string>;
  /** In the order in which they were written: those of the last day, and of each URL the latest. */
  readonly uses: Use[];
  readonly outcomes: Map<string, { rule: string; mode: string; outcome: FinalOutcome; count: number; since: number }>;
  /** How the last blind cancel of an id ended, of those that may have reached the service. */
  readonly blindEnds: Map<string, { readonly at: number; readonly outcome: FinalOutcome }>;
  readonly breakers: Map<Breaker, { readonly at: number; readonly reason: string }>;
  /** Since a breaker's last reset: when the service did not do as asked, and how the latest races ended. */
  readonly errors: number[];
  readonly races: boolean[];
  /** A pause by the lines alone. Decisions read the brake: see brake.ts. */
  paused: { readonly at: number; readonly by: string; readonly reason: string } | undefined;
  /** UUIDs of operators' orders that have a line. */
  readonly orders: Set<string>;
}

/** After these the action is open to another attempt, judged again. */
const REOPENS: readonly FinalOutcome[] = ['planned', 'expired', 'not_in_progress'];
/** Races that are remembered: more than any configuration asks for. */
const MOST_RACES = 1000;

export function emptyJournal(): JournalState {
  return {
    lastAt: Number.NEGATIVE_INFINITY,
    actions: new Map(),
    closed: new Map(),
    senders: new Map(),
    uses: [],
    outcomes: new Map(),
    blindEnds: new Map(),
    breakers: new Map(),
    errors: [],
    races: [],
    paused: undefined,
    orders: new Set(),
  };
}

/** The same run of the same entry's callback, under either of its ids: 64 bits as text. */
export const episodeKey = ({ dlqId, messageId, episode }: JournalTarget): string =>
  hashedId([dlqId ?? '', messageId ?? '', episode], 16);

const finalOutcome = ({ outcome }: ClosedAction) => (outcome === 'planned' ? undefined : outcome);

/** How an action ended for good; undefined if it may still be acted upon. */
export function endOf({ actions, closed }: JournalState, id: string): FinalOutcome | undefined {
  const action = actions.get(id);
  if (action) return action.ended;
  const found = closed.get(id);
  return found && finalOutcome(found);
}

export const isPlanned = ({ actions, closed }: JournalState, id: string): boolean =>
  actions.get(id)?.isPlanned ?? closed.get(id)?.outcome === 'planned';

/** The longest window of a limit (ms). */
const DAY = 24 * 3_600_000;
/** The longest `cooldown` and `recheckAfter` that a configuration can have (ms). */
const LONGEST_SPAN = 366 * DAY;

/** One object for each kind of end, which thousands of actions share. */
const ends = new Map<string, ClosedAction>();
function closedAs(outcome: FinalOutcome, attempts: number): ClosedAction {
  const key = `${outcome} ${attempts}`;
  const end = ends.get(key) ?? { outcome, attempts };
  ends.set(key, end);
  return end;
}

function close(state: JournalState, action: Action): void {
  const { id, target, attempts, ended } = action;
  const outcome = ended ?? (action.isPlanned ? 'planned' : undefined);
  const count = attempts.length + (state.closed.get(id)?.attempts ?? 0);
  if (outcome) state.closed.set(id, closedAs(outcome, count));
  if (attemptsThatCount(action) > 0) {
    const key = episodeKey(target);
    state.senders.set(key, (state.senders.get(key) ?? id) === id ? id : '');
  }
  state.actions.delete(id);
}

/** Drops what no decision needs any more. `now`: the time by which limits count (ms since the Unix epoch); it never goes back. */
export function prune(state: JournalState, now: number): void {
  for (const action of state.actions.values()) {
    const { isOpen, ended, graceUntil, approvalUntil, attempts } = action;
    const waits = graceUntil !== undefined || approvalUntil !== undefined;
    const mayRepeat = ended === undefined && attempts.some(({ at }) => at > now - LONGEST_SPAN);
    if (!isOpen && !waits && !mayRepeat) close(state, action);
  }
  const latest = new Map<string, number>();
  const nameOf = ({ url, isPlan }: Use) => `${isPlan} ${url}`;
  for (const use of state.uses) latest.set(nameOf(use), Math.max(use.at, latest.get(nameOf(use)) ?? use.at));
  const kept = state.uses.filter(
    use => use.at > now - DAY || (use.at > now - LONGEST_SPAN && use.at === latest.get(nameOf(use))),
  );
  if (kept.length < state.uses.length) state.uses.splice(0, state.uses.length, ...kept);
}

/** The address by which limits count. */
export const urlOf = ({ workflowUrl, url }: JournalTarget) => workflowUrl ?? url;

/** Nothing is waited for, and no rule asks. */
const NO_WAIT = { asker: undefined, graceUntil: undefined, approvalUntil: undefined, approvedBy: undefined };

function begin(id: string, target: JournalTarget, rule: string, closed: ClosedAction | undefined): Action {
  return {
    id,
    target,
    rule,
    mode: 'plan',
    blind: false,
    ...NO_WAIT,
    isPlanned: closed?.outcome === 'planned',
    attempts: [],
    isOpen: false,
    ended: closed && finalOutcome(closed),
  };
}

/** Attempts of an action of which a request may have reached the service. */
export function attemptsThatCount({ attempts }: Action): number {
  return attempts.filter(({ answer }) => answer?.kind !== 'limited' && answer?.kind !== 'not_sent').length;
}

/** Whether what was marked, approved or sent of an action was for this very rule, mode and policy. */
export function isAskedBy(
  { asker }: Action,
  { rule, mode }: { readonly rule: { readonly name: string }; readonly mode: Asker['mode'] },
  policy: string,
): boolean {
  return asker?.rule === rule.name && asker.mode === mode && asker.policy === policy;
}

function isError(answer: CancelAnswer): boolean {
  return answer.kind === 'unknown' || answer.kind === 'denied';
}

function foldStop(state: JournalState, entry: JournalEntry): void {
  const { at } = entry;
  if (entry.step === 'paused') state.paused = { at, by: entry.by, reason: entry.reason };
  else if (entry.step === 'resumed') state.paused = undefined;
  else if (entry.step === 'breaker_opened') state.breakers.set(entry.breaker, { at, reason: entry.reason });
  else if (entry.step === 'breaker_reset') {
    state.breakers.delete(entry.breaker);
    // What opened it does not open it again.
    if (entry.breaker === 'errors') state.errors.length = 0;
    if (entry.breaker === 'lost_races') state.races.length = 0;
  }
}

function foldEnd(state: JournalState, action: Action, entry: Extract<JournalEntry, { step: 'ended' }>): Action {
  const { at, outcome, rule, mode, target } = entry;
  const key = `${rule}\0${mode}\0${outcome}`;
  const { count, since } = state.outcomes.get(key) ?? { count: 0, since: zeroBefore(at) };
  state.outcomes.set(key, { rule, mode, outcome, count: count + 1, since });
  if (action.blind && outcome !== 'expired' && outcome !== 'planned') state.blindEnds.set(target.id, { at, outcome });
  if (outcome === 'planned') state.uses.push({ at, rule, url: urlOf(target), isPlan: true });
  if (!action.blind && (outcome === 'confirmed' || outcome === 'superseded')) {
    state.races.push(outcome === 'superseded');
    if (state.races.length > MOST_RACES) state.races.shift();
  }
  return {
    ...action,
    target,
    rule,
    mode,
    ...NO_WAIT,
    isPlanned: action.isPlanned || outcome === 'planned',
    isOpen: false,
    ended: REOPENS.includes(outcome) ? undefined : outcome,
  };
}

/** Takes one line of the journal into the state. Lines come in the order in which they were written. */
export function foldEntry(state: JournalState, entry: JournalEntry): void {
  state.lastAt = Math.max(state.lastAt, entry.at);
  if ('order' in entry && entry.order !== undefined) state.orders.add(entry.order);
  if (entry.action === undefined) {
    foldStop(state, entry);
    return;
  }
  const { at, action: id } = entry;
  const known = state.actions.get(id);
  const action = known ?? ('target' in entry ? begin(id, entry.target, entry.rule, state.closed.get(id)) : undefined);
  // A line about nothing says nothing.
  if (!action) return;
  const set = (changes: Partial<Action>) => state.actions.set(id, { ...action, ...changes });
  switch (entry.step) {
    case 'marked': {
      const { rule, mode, policy, target, until } = entry;
      set({ ...NO_WAIT, rule, target, asker: { rule, mode, policy }, graceUntil: until });
      break;
    }
    case 'awaiting_approval': {
      const { rule, mode, policy, target, until } = entry;
      set({ rule, target, asker: { rule, mode, policy }, approvalUntil: until, approvedBy: undefined });
      break;
    }
    case 'cleared':
      set(NO_WAIT);
      break;
    case 'approved':
      set({ approvedBy: action.approvedBy ?? entry.by });
      break;
    case 'intent': {
      const { rule, mode, policy, blind, target, attempt, approvedBy } = entry;
      const attempts = [...action.attempts, { number: attempt, at, answer: undefined, answeredAt: undefined }];
      set({ rule, mode, blind, target, asker: { rule, mode, policy }, approvedBy, attempts, isOpen: true });
      state.uses.push({ at, rule, url: urlOf(target), isPlan: false });
      break;
    }
    case 'answered': {
      const attempts = action.attempts.map(attempt =>
        attempt.number === entry.attempt ? { ...attempt, answer: entry.answer, answeredAt: at } : attempt,
      );
      set({ attempts });
      if (isError(entry.answer)) state.errors.push(at);
      break;
    }
    case 'ended':
      state.actions.set(id, foldEnd(state, action, entry));
      break;
  }
}
