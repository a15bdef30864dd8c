import { longText } from '../kit/duration.ts';
import { type AutoCancelNumbers, PLAN_OUTCOMES } from '../model/journal.ts';
import { counter, type Family, gauge, type Sample } from './family.ts';
import { OBSERVED_FOR } from './thresholds.ts';

/** Families about auto-cancel, exposed unless `autoCancel.mode` is off. */
export const autoCancelFamilies = {
  candidates: gauge(
    'delivery_auto_cancel_candidates',
    'Stuck failure callbacks that match the rule in the last complete walk, cancelled or not.',
    ['rule'],
  ),
  actions: counter(
    'delivery_auto_cancel_actions_total',
    'Actions by outcome. planned: the rule would have cancelled. confirmed: the service reports the callback as cancelled.',
    ['rule', 'mode', 'outcome'],
  ),
  plannedOutcomes: counter(
    'delivery_auto_cancel_planned_outcomes_total',
    `Planned cancels, grouped by the later outcome of the callback. Each planned cancel is counted once. success, failed: the callback ended by itself. in_progress: it was still in progress ${longText(OBSERVED_FOR)} after the plan. unknown: the callback was cancelled, or its end was not seen.`,
    ['rule', 'outcome'],
  ),
  skipped: counter(
    'delivery_auto_cancel_skipped_total',
    'Failure callbacks that match the rule but were not cancelled, by reason. A callback counts again when its reason changes.',
    ['rule', 'reason'],
  ),
  breakerOpen: gauge(
    'delivery_auto_cancel_breaker_open',
    'Whether the breaker is open (1) or not (0). An open breaker stops all cancels of the account.',
    ['breaker'],
  ),
  paused: gauge('delivery_auto_cancel_paused', 'Whether an operator has paused auto-cancel (1) or not (0).'),
  oldestUnresolved: gauge(
    'delivery_auto_cancel_oldest_unresolved_timestamp_seconds',
    'Start of the oldest cancel with an unknown outcome. Absent if there is none.',
    ['rule'],
  ),
  budgetRemaining: gauge(
    'delivery_auto_cancel_budget_remaining',
    'Cancels that the hourly and daily limits of the account still allow.',
  ),
  ruleBudgetRemaining: gauge(
    'delivery_auto_cancel_rule_budget_remaining',
    'Cancels that the hourly limit of the rule still allows.',
    ['rule'],
  ),
} as const;

export function autoCancelSamples(numbers: AutoCancelNumbers): ReadonlyMap<string, readonly Sample[]> {
  const { candidates, actions, plans, skips, breakers, isPaused, unresolved, budget } = numbers;
  const samples: readonly (readonly [Family, readonly Sample[]])[] = [
    [autoCancelFamilies.candidates, [...candidates].map(([rule, value]) => ({ labels: { rule }, value }))],
    [autoCancelFamilies.actions, actions.map(({ count, ...labels }) => ({ labels, value: count }))],
    [
      autoCancelFamilies.plannedOutcomes,
      [...plans].flatMap(([rule, counts]) =>
        PLAN_OUTCOMES.map(outcome => ({ labels: { rule, outcome }, value: counts[outcome] })),
      ),
    ],
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
    [autoCancelFamilies.budgetRemaining, budget.slice(0, 1).map(({ left }) => ({ labels: {}, value: left }))],
    [
      autoCancelFamilies.ruleBudgetRemaining,
      budget.slice(1).map(({ rule = '', left }) => ({ labels: { rule }, value: left })),
    ],
  ];
  return new Map(samples.map(([family, each]) => [family.name, each]));
}
