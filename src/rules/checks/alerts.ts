import type { CheckSeverity } from '../../model/check-kind.ts';

interface Definition {
  readonly severity: CheckSeverity;
  /** How long a finding must last before it is sent (ms). Default: sent at the first evaluation. */
  readonly for?: number;
  /** How long the alert keeps firing after its last finding (ms). Default: 15 minutes. */
  readonly keepFiringFor?: number;
  /** Label that contains the subject of a finding. */
  readonly label?: string;
  readonly hasNoRunbook?: true;
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;

const KEEP_FIRING_FOR = 15 * MINUTE;

/**
 * The built-in alerts: names, times and labels of the shipped alerts on the same condition. docs/problems.md lists where they
 * differ, and why.
 */
export const builtinAlerts = {
  DeliveryBlind: { severity: 'critical', for: 30 * SECOND, keepFiringFor: MINUTE, label: 'collector' },
  DeliveryCollectorStale: { severity: 'warning', for: 15 * MINUTE, label: 'filter' },
  DeliveryTokenRejected: { severity: 'critical', for: MINUTE },
  DeliveryRateLimited: { severity: 'warning', for: 10 * MINUTE },
  DeliveryRequestBudgetLow: { severity: 'warning', for: 15 * MINUTE },
  DeliveryRowsRejected: { severity: 'warning', for: 5 * MINUTE, keepFiringFor: 5 * MINUTE, label: 'collector' },
  DeliveryListsMissing: { severity: 'warning', for: 5 * MINUTE, keepFiringFor: 5 * MINUTE, label: 'collector' },
  DeliveryErrorBudgetFastBurn: { severity: 'critical', for: 2 * MINUTE, keepFiringFor: 12 * MINUTE },
  DeliveryErrorBudgetSlowBurn: { severity: 'warning', for: 15 * MINUTE },
  DeliveryOnTimeBudgetFastBurn: { severity: 'critical', for: 2 * MINUTE, keepFiringFor: 12 * MINUTE },
  DeliveryOnTimeBudgetSlowBurn: { severity: 'warning', for: 15 * MINUTE },
  DeliveryStalled: { severity: 'critical', for: 10 * MINUTE },
  DeliveryRetryRatioHigh: { severity: 'warning', for: 15 * MINUTE },
  DeliveryEventLogStale: { severity: 'warning', for: 5 * MINUTE },
  DeliveryEventLogGap: { severity: 'warning' },
  DeliveryDlqGrowing: { severity: 'warning', for: 2 * MINUTE },
  DeliveryDlqExpiringSoon: { severity: 'critical', for: 15 * MINUTE },
  DeliveryDlqAgeHigh: { severity: 'warning', for: 15 * MINUTE },
  DeliveryDlqNearlyFull: { severity: 'warning', for: 15 * MINUTE },
  DeliveryFailureCallbackStuck: { severity: 'warning', for: 15 * MINUTE },
  DeliveryFailureCallbackFailed: { severity: 'warning', for: 30 * MINUTE },
  DeliveryFlowControlBacklogGrowing: { severity: 'warning', for: 15 * MINUTE, label: 'flow_control_key' },
  DeliveryFlowControlGhostSlots: { severity: 'warning', for: 2 * MINUTE, label: 'flow_control_key' },
  DeliveryWaitlistStalled: { severity: 'warning', for: 10 * MINUTE, label: 'flow_control_key' },
  DeliveryDispatchPausedWithBacklog: { severity: 'warning', label: 'flow_control_key' },
  DeliveryScheduleMissed: { severity: 'warning', label: 'schedule' },
  DeliveryScheduleLate: { severity: 'warning', label: 'schedule' },
  DeliveryAutoCancelUnresolved: { severity: 'critical', for: 5 * MINUTE, label: 'rule' },
  DeliveryAutoCancelBreakerOpen: { severity: 'warning', keepFiringFor: 5 * MINUTE, label: 'breaker' },
  DeliveryAutoCancelPaused: { severity: 'info', hasNoRunbook: true },
  DeliveryServiceUnavailable: { severity: 'critical', for: 15 * SECOND, keepFiringFor: 3 * MINUTE },
  DeliveryDatabaseAway: { severity: 'critical', for: 3 * MINUTE, keepFiringFor: 5 * MINUTE },
  DeliveryStoreFailing: { severity: 'critical', for: 2 * MINUTE, keepFiringFor: 5 * MINUTE },
  DeliveryNotificationsFailing: { severity: 'critical', for: 10 * MINUTE, label: 'notifier' },
  DeliveryPushFailing: { severity: 'warning', for: 10 * MINUTE },
  DeliveryConfigReloadFailed: { severity: 'warning', for: 5 * MINUTE },
  DeliveryAccountUncollected: { severity: 'critical', keepFiringFor: 5 * MINUTE },
} as const satisfies Readonly<Record<`Delivery${string}`, Definition>>;

export type BuiltinAlert = keyof typeof builtinAlerts;

export const BUILTIN_ALERTS = Object.keys(builtinAlerts) as readonly BuiltinAlert[];

/** A built-in alert with its defaults. */
export function builtinAlert(name: BuiltinAlert): Definition & Required<Pick<Definition, 'for' | 'keepFiringFor'>> {
  return { for: 0, keepFiringFor: KEEP_FIRING_FOR, ...builtinAlerts[name] };
}
