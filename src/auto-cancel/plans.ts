import { recordOf } from '../kit/record.ts';
import { percent } from '../kit/text.ts';
import { type JournalEntry, PLAN_OUTCOMES, type PlanCounts } from '../model/journal.ts';

type PlanLine = Extract<JournalEntry, { step: 'ended' }>;

/** Planned callbacks of journals: lines of plans without an outcome, by action; and counts, by rule. */
export interface Plans {
  readonly open: Map<string, PlanLine>;
  readonly rules: Map<string, PlanCounts>;
}

export const noPlans = (): Plans => ({ open: new Map(), rules: new Map() });

export const sumOfPlans = (all: readonly PlanCounts[]): PlanCounts =>
  recordOf(['planned', ...PLAN_OUTCOMES], key => all.reduce((sum, each) => sum + each[key], 0));

export const planCounts = ({ rules }: Plans, rule: string): PlanCounts => rules.get(rule) ?? sumOfPlans([]);

/** Folds a line. Counts each plan and the first outcome of each plan once. */
export function foldPlan(plans: Plans, entry: JournalEntry): void {
  const add = (rule: string, key: keyof PlanCounts, before = planCounts(plans, rule)) =>
    plans.rules.set(rule, { ...before, [key]: before[key] + 1 });
  if (entry.step === 'observed') {
    if (plans.open.delete(entry.action)) add(entry.rule, entry.outcome);
  } else if (entry.step === 'ended' && entry.outcome === 'planned') {
    if (!plans.open.has(entry.action)) add(entry.rule, 'planned');
    plans.open.set(entry.action, entry);
  }
}

/** Minimum number of known outcomes for a percentage. */
const ENOUGH = 20;

/** Returns the counts with `wrong`: plans that succeeded by themselves, of those with a known outcome (`3 of 40`). */
export function planSummary({ planned, ...outcomes }: PlanCounts) {
  const known = outcomes.success + outcomes.failed + outcomes.in_progress;
  const share = known < ENOUGH ? '' : ` (${percent(outcomes.success / known)})`;
  const observing = planned - known - outcomes.unknown;
  return { planned, ...outcomes, observing, wrong: `${outcomes.success} of ${known}${share}` };
}
