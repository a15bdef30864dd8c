import { type AutoCancelNumbers, BREAKERS, FINAL_OUTCOMES } from '../model/journal.ts';
import { actionsLeft, ruleActionsLeft } from './brakes.ts';
import type { JournalState } from './journal-state.ts';
import { modeOf } from './judge.ts';
import type { LimitClock } from './limit-clock.ts';
import type { AutoCancelOptions } from './options.ts';

/** What the journal says of an account's rules, for its metrics. */
export function journalNumbers(
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
