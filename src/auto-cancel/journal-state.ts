import { DAY } from '../kit/duration.ts';
import { hashedId } from '../kit/hash.ts';
import { recordOf } from '../kit/record.ts';
import { percent } from '../kit/text.ts';
import {
  type Breaker,
  type CancelResponse,
  type FinalOutcome,
  type JournalEntry,
  type JournalTarget,
  PLAN_OUTCOMES,
  type PlanCounts,
  type Requester,
} from '../model/journal.ts';

type EndedLine = Extract<JournalEntry, { step: 'ended' }>;

/** Returns empty plans of journals. `open`: lines of plans without an outcome, by action; `rules`: counts by rule. */
export const noPlans = () => ({ open: new Map<string, EndedLine>(), rules: new Map<string, PlanCounts>() });

export const NONE_PLANNED: PlanCounts = recordOf(['planned', ...PLAN_OUTCOMES], () => 0);

/** Folds a line. Counts each plan and the first outcome of each plan once. */
export function foldPlan(plans: ReturnType<typeof noPlans>, entry: JournalEntry): void {
  const add = (rule: string, key: keyof PlanCounts, before = plans.rules.get(rule) ?? NONE_PLANNED) =>
    plans.rules.set(rule, { ...before, [key]: before[key] + 1 });
  if (entry.step === 'observed') {
    if (plans.open.delete(entry.action)) add(entry.rule, entry.outcome);
  } else if (entry.step === 'ended' && entry.outcome === 'planned') {
    if (!plans.open.has(entry.action)) add(entry.rule, 'planned');
    plans.open.set(entry.action, entry);
  }
}

const ENOUGH = 20;

/** Returns the counts and `wrong`: how many of the planned callbacks with a known outcome succeeded by themselves (`3 of 40`). */
export function planSummary({ planned, ...outcomes }: PlanCounts) {
  const known = outcomes.success + outcomes.failed + outcomes.in_progress;
  const share = known < ENOUGH ? '' : ` (${percent(outcomes.success / known)})`;
  const observing = planned - known - outcomes.unknown;
  return { planned, ...outcomes, observing, wrong: `${outcomes.success} of ${known}${share}` };
}

/** An intent and its response, if any. Times in ms since the Unix epoch. */
export interface CancelAttempt {
  readonly number: number;
  readonly at: number;
  readonly response: CancelResponse | undefined;
}

/** State of an action, folded from the journal. Times in ms since the Unix epoch. */
export interface Action {
  readonly id: string;
  readonly target: JournalTarget;
  readonly rule: string;
  readonly mode: 'plan' | 'approve' | 'enforce';
  readonly blind: boolean;
  /** Rule, mode and policy that started the wait or the attempts. */
  readonly requester: Requester | undefined;
  readonly graceUntil: number | undefined;
  readonly approvalUntil: number | undefined;
  readonly approvedBy: string | undefined;
  readonly isPlanned: boolean;
  readonly attempts: readonly CancelAttempt[];
  /** Whether an intent has no outcome yet. It must be settled before the next attempt. */
  readonly isOpen: boolean;
  /** Final outcome; undefined if another attempt is permitted. */
  readonly ended: FinalOutcome | undefined;
}

export type ActionRef = Pick<EndedLine, 'action' | 'rule' | 'mode' | 'target'>;

export const refOf = ({ id, rule, mode, target }: Action): ActionRef => ({ action: id, rule, mode, target });

export function endLine(
  { action, rule, mode, target }: ActionRef,
  outcome: FinalOutcome,
  reason: string,
  at: number,
): EndedLine {
  return { at, action, step: 'ended', outcome, rule, mode, reason, target };
}

/** An intent, or a plan, that counts against the limits. */
export interface LimitUse {
  readonly at: number;
  readonly rule: string;
  readonly url: string | undefined;
  readonly isPlan: boolean;
}

export interface ClosedAction {
  /** `planned` if another attempt is permitted. */
  readonly outcome: FinalOutcome;
  readonly attempts: number;
}

/** Outcomes after which another attempt is permitted. */
const REOPENS: readonly FinalOutcome[] = ['planned', 'expired', 'not_in_progress'];

/** State folded from the journal. `prune` drops unneeded parts. */
export type JournalState = ReturnType<typeof emptyJournal>;

export function emptyJournal() {
  return {
    /** Latest time of any line (ms since the Unix epoch), not always that of the last line. */
    lastAt: Number.NEGATIVE_INFINITY,
    /** Actions that wait, are open, or may be repeated. `prune` moves all others to `closed`. */
    actions: new Map<string, Action>(),
    /** Pruned actions by id. Never dropped: an action must not be repeated. */
    closed: new Map<string, ClosedAction>(),
    /** Pruned action that sent a cancel, by episode; '' if there are several. Never dropped. */
    senders: new Map<string, string>(),
    /** All uses of the last day; of the last year, only the latest plan and the latest cancel of each URL. In journal order. */
    uses: [] as LimitUse[],
    outcomes: new Map<string, { rule: string; mode: string; outcome: FinalOutcome; count: number }>(),
    /** Outcome of the last blind cancel of each id. */
    blindEnds: new Map<string, { readonly at: number; readonly outcome: FinalOutcome }>(),
    breakers: new Map<Breaker, { readonly at: number; readonly reason: string }>(),
    /** Times of failed cancels since the `errors` breaker was last reset. */
    errors: [] as number[],
    /** Whether each cancel since the `lost_races` breaker was last reset came too late. */
    races: [] as boolean[],
    /** Pause that the journal shows, for audits only. Decisions use the brake: see brake.ts. */
    paused: undefined as { readonly at: number; readonly by: string; readonly reason: string } | undefined,
    orders: new Set<string>(),
    plans: noPlans(),
  };
}

/** Returns the key of an entry's episode: 64 bits as text. */
export const episodeKey = ({ dlqId, messageId, episode }: JournalTarget): string =>
  hashedId([dlqId ?? '', messageId ?? '', episode], 16);

const finalOutcome = ({ outcome }: ClosedAction) => (outcome === 'planned' ? undefined : outcome);

/** Returns the final outcome of an action; undefined if another attempt is permitted. */
export function endOf({ actions, closed }: JournalState, id: string): FinalOutcome | undefined {
  const action = actions.get(id);
  if (action) return action.ended;
  const found = closed.get(id);
  return found && finalOutcome(found);
}

export const isPlanned = ({ actions, closed }: JournalState, id: string): boolean =>
  actions.get(id)?.isPlanned ?? closed.get(id)?.outcome === 'planned';

/** Upper bound of the configurable `cooldown` and `recheckAfter` (ms). */
const MAX_SPAN = 366 * DAY;

function close(state: JournalState, action: Action): void {
  const { id, target, attempts, ended } = action;
  const outcome = ended ?? (action.isPlanned ? 'planned' : undefined);
  const before = state.closed.get(id)?.attempts ?? 0;
  if (outcome) state.closed.set(id, { outcome, attempts: before + attempts.length });
  if (attemptsThatCount(action) > 0) {
    const key = episodeKey(target);
    state.senders.set(key, (state.senders.get(key) ?? id) === id ? id : '');
  }
  state.actions.delete(id);
}

/** Drops state that decisions no longer need. `now`: time for limits (ms since the Unix epoch). */
export function prune(state: JournalState, now: number): void {
  for (const action of state.actions.values()) {
    const { isOpen, ended, graceUntil, approvalUntil, attempts } = action;
    const waits = graceUntil !== undefined || approvalUntil !== undefined;
    const mayRepeat = ended === undefined && attempts.some(({ at }) => at > now - MAX_SPAN);
    if (!isOpen && !waits && !mayRepeat) close(state, action);
  }
  const latest = new Map<string, number>();
  const nameOf = ({ url, isPlan }: LimitUse) => `${isPlan} ${url}`;
  for (const use of state.uses) latest.set(nameOf(use), Math.max(use.at, latest.get(nameOf(use)) ?? use.at));
  state.uses = state.uses.filter(
    use => use.at > now - DAY || (use.at > now - MAX_SPAN && use.at === latest.get(nameOf(use))),
  );
}

/** Returns the URL that identifies an action in per-URL limits. */
export const urlOf = ({ workflowUrl, url }: JournalTarget) => workflowUrl ?? url;

const NO_WAIT = { requester: undefined, graceUntil: undefined, approvalUntil: undefined, approvedBy: undefined };

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

/** Whether a response proves that the cancel had no effect and that another attempt may succeed, for example with a new token. */
export function isWithoutEffect(response: CancelResponse): boolean {
  if (response.kind === 'denied') return response.status === 401 || response.status === 403;
  return response.kind === 'limited' || response.kind === 'not_sent';
}

/** Returns the number of attempts that may have had an effect or were refused for good. */
export function attemptsThatCount({ attempts }: Action): number {
  return attempts.filter(({ response }) => !response || !isWithoutEffect(response)).length;
}

export function isRequestedBy(
  { requester }: Action,
  { rule, mode }: { readonly rule: { readonly name: string }; readonly mode: Requester['mode'] },
  policy: string,
): boolean {
  return requester?.rule === rule.name && requester.mode === mode && requester.policy === policy;
}

function foldStop(state: JournalState, entry: JournalEntry): void {
  const { at } = entry;
  if (entry.step === 'paused') state.paused = { at, by: entry.by, reason: entry.reason };
  else if (entry.step === 'resumed') state.paused = undefined;
  else if (entry.step === 'breaker_opened') state.breakers.set(entry.breaker, { at, reason: entry.reason });
  else if (entry.step === 'breaker_reset') {
    state.breakers.delete(entry.breaker);
    if (entry.breaker === 'errors') state.errors.length = 0;
    if (entry.breaker === 'lost_races') state.races.length = 0;
  }
}

function foldEnd(state: JournalState, action: Action, entry: EndedLine): Action {
  const { at, outcome, rule, mode, target } = entry;
  const key = `${rule}\0${mode}\0${outcome}`;
  state.outcomes.set(key, { rule, mode, outcome, count: (state.outcomes.get(key)?.count ?? 0) + 1 });
  if (action.blind && outcome !== 'expired' && outcome !== 'planned') state.blindEnds.set(target.id, { at, outcome });
  if (outcome === 'planned') state.uses.push({ at, rule, url: urlOf(target), isPlan: true });
  if (!action.blind && (outcome === 'confirmed' || outcome === 'superseded')) {
    state.races.push(outcome === 'superseded');
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

/** Folds one line into the state. Lines must be folded in journal order. */
export function foldEntry(state: JournalState, entry: JournalEntry): void {
  state.lastAt = Math.max(state.lastAt, entry.at);
  foldPlan(state.plans, entry);
  if ('order' in entry && entry.order !== undefined) state.orders.add(entry.order);
  if (entry.action === undefined) {
    foldStop(state, entry);
    return;
  }
  const { at, action: id } = entry;
  const known = state.actions.get(id);
  const action = known ?? ('target' in entry ? begin(id, entry.target, entry.rule, state.closed.get(id)) : undefined);
  if (!action) return;
  const set = (changes: Partial<Action>) => state.actions.set(id, { ...action, ...changes });
  switch (entry.step) {
    case 'marked':
    case 'awaiting_approval': {
      const { step, rule, mode, policy, target, until } = entry;
      const wait =
        step === 'marked' ? { ...NO_WAIT, graceUntil: until } : { approvalUntil: until, approvedBy: undefined };
      set({ ...wait, rule, target, requester: { rule, mode, policy } });
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
      const attempts = [...action.attempts, { number: attempt, at, response: undefined }];
      set({ rule, mode, blind, target, requester: { rule, mode, policy }, approvedBy, attempts, isOpen: true });
      state.uses.push({ at, rule, url: urlOf(target), isPlan: false });
      break;
    }
    case 'answered': {
      const attempts = action.attempts.map(attempt =>
        attempt.number === entry.attempt ? { ...attempt, response: entry.answer } : attempt,
      );
      set({ attempts });
      if (entry.answer.kind === 'unknown' || entry.answer.kind === 'denied') state.errors.push(at);
      break;
    }
    case 'ended':
      state.actions.set(id, foldEnd(state, action, entry));
      break;
  }
}
