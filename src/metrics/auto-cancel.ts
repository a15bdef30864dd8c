import type { AutoCancelNumbers } from '../model/journal.ts';
import { counter, type Family, gauge, type Sample } from './family.ts';

/** Every family about auto-cancel. They are shown while `autoCancel.mode` is not off. */
export const autoCancelFamilies = {
  candidates: gauge(
    'delivery_auto_cancel_candidates',
    'Failure callbacks that the rule calls stuck, at the last complete walk of the dead-letter queue; what has been done about them does not count.',
    ['rule'],
  ),
  actions: counter(
    'delivery_auto_cancel_actions_total',
    'Actions by how they ended, across restarts: planned is what would have been cancelled, confirmed what the service then calls cancelled.',
    ['rule', 'mode', 'outcome'],
  ),
  skipped: counter(
    'delivery_auto_cancel_skipped_total',
    'Decisions to leave a failure callback alone that a rule matches, by why; counted when the reason changes, since this process began.',
    ['rule', 'reason'],
  ),
  breakerOpen: gauge(
    'delivery_auto_cancel_breaker_open',
    '1 while the breaker keeps anything from being done, until it is reset by hand.',
    ['breaker'],
  ),
  paused: gauge('delivery_auto_cancel_paused', '1 while an operator has paused auto-cancel.'),
  oldestUnresolved: gauge(
    'delivery_auto_cancel_oldest_unresolved_timestamp_seconds',
    'When the oldest cancel whose end is not known yet was intended. Absent when there is none.',
    ['rule'],
  ),
  budgetRemaining: gauge(
    'delivery_auto_cancel_budget_remaining',
    'Cancels that the limits of hour and day leave to the account.',
  ),
  ruleBudgetRemaining: gauge(
    'delivery_auto_cancel_rule_budget_remaining',
    'Cancels that the limit of the hour leaves to the rule.',
    ['rule'],
  ),
} as const;

export function autoCancelSamples(numbers: AutoCancelNumbers): ReadonlyMap<string, readonly Sample[]> {
  const { candidates, actions, skips, breakers, isPaused, unresolved, budget } = numbers;
  const [ofAccount, ofRules] = [
    budget.filter(({ rule }) => rule === undefined),
    budget.filter(({ rule }) => rule !== undefined),
  ];
  const samples: readonly (readonly [Family, readonly Sample[]])[] = [
    [autoCancelFamilies.candidates, [...candidates].map(([rule, value]) => ({ labels: { rule }, value }))],
    [autoCancelFamilies.actions, actions.map(({ count, ...labels }) => ({ labels, value: count }))],
    [autoCancelFamilies.skipped, skips.map(({ count, ...labels }) => ({ labels, value: count }))],
    [
      autoCancelFamilies.breakerOpen,
      [...breakers].map(([breaker, isOpen]) => ({ labels: { breaker }, value: Number(isOpen) })),
    ],
    [autoCancelFamilies.paused, [{ labels: {}, value: Number(isPaused) }]],
    [
      autoCancelFamilies.oldestUnresolved,
      [...unresolved].map(([rule, at]) => ({ labels: { rule }, value: at / 1000 })),
    ],
    [autoCancelFamilies.budgetRemaining, ofAccount.map(({ left }) => ({ labels: {}, value: left }))],
    [autoCancelFamilies.ruleBudgetRemaining, ofRules.map(({ rule, left }) => ({ labels: { rule }, value: left }))],
  ];
  return new Map(samples.map(([family, each]) => [family.name, each]));
}
