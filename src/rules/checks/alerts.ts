import { MINUTE } from '../../kit/duration.ts';
import { CHECK_SEVERITIES, type CheckKind, type CheckSeverity } from '../../model/check-kind.ts';
import type { BuiltinOptions } from '../options.ts';

interface Definition {
  /** Kinds of the checks that feed the alert. */
  readonly kinds: readonly CheckKind[];
  /** Default: `warning`. */
  readonly severity?: CheckSeverity;
  /** How long a finding must last before it is sent (ms). Default: 0. */
  readonly for?: number;
  /**
   * How long the alert keeps firing after its last finding (ms). Default: 0, because one good answer disproves most findings. Set
   * it for shares and growth, which may exceed their limit again.
   */
  readonly keepFiringFor?: number;
  /** Label that contains the subject of a finding. */
  readonly label?: string;
  readonly hasNoRunbook?: true;
  /** Whether the alert is about the agent instead of one of its accounts. */
  readonly isOfAgent?: true;
  /** Whether the alert is sent only with `alerts.builtin.extended`. */
  readonly isExtended?: true;
}

const SECOND = 1000;
/** `keepFiringFor` of alerts on a share or on growth. */
const KEEP_FIRING_FOR = 15 * MINUTE;
/** `keepFiringFor` of alerts on a fast burn. Its short window of five minutes already shows that the burn has ended. */
const KEEP_BURNING_FOR = 10 * MINUTE;

/**
 * The built-in alerts. Names, durations and labels match those of the shipped alerts for the same condition, except for the
 * differences that docs/problems.md explains.
 */
const builtinAlerts = {
  DeliveryBlind: {
    kinds: ['service_unavailable', 'data_withdrawn', 'data_stale'],
    severity: 'critical',
    for: 30 * SECOND,
    label: 'collector',
  },
  DeliveryCollectorStale: {
    kinds: ['data_stale', 'filter_failing'],
    for: 15 * MINUTE,
    label: 'filter',
    isExtended: true,
  },
  // Longer than the rotation of a token takes.
  DeliveryTokenRejected: { kinds: ['token_rejected'], severity: 'critical', for: 3 * MINUTE },
  DeliveryRateLimited: {
    kinds: ['rate_limited'],
    for: 10 * MINUTE,
    keepFiringFor: KEEP_FIRING_FOR,
    isExtended: true,
  },
  DeliveryRequestBudgetLow: { kinds: ['budget_low'], for: 15 * MINUTE, isExtended: true },
  DeliveryClockSkew: {
    kinds: ['clock_skew'],
    for: 2 * MINUTE,
    keepFiringFor: 2 * MINUTE,
    hasNoRunbook: true,
  },
  DeliveryRowsRejected: {
    kinds: ['rows_unreadable'],
    for: 5 * MINUTE,
    label: 'collector',
    isExtended: true,
  },
  DeliveryListsMissing: {
    kinds: ['lists_missing'],
    for: 5 * MINUTE,
    label: 'collector',
    isExtended: true,
  },
  DeliveryErrorBudgetFastBurn: {
    kinds: ['messages_failing'],
    severity: 'critical',
    for: 2 * MINUTE,
    keepFiringFor: KEEP_BURNING_FOR,
  },
  DeliveryErrorBudgetSlowBurn: { kinds: ['messages_failing'], for: 15 * MINUTE, keepFiringFor: KEEP_FIRING_FOR },
  DeliveryOnTimeBudgetFastBurn: {
    kinds: ['messages_late'],
    severity: 'critical',
    for: 2 * MINUTE,
    keepFiringFor: KEEP_BURNING_FOR,
  },
  DeliveryOnTimeBudgetSlowBurn: {
    kinds: ['messages_late'],
    for: 15 * MINUTE,
    keepFiringFor: KEEP_FIRING_FOR,
    isExtended: true,
  },
  DeliveryStalled: { kinds: ['deliveries_stalled'], severity: 'critical', for: 10 * MINUTE },
  DeliveryRetryRatioHigh: {
    kinds: ['retries_high'],
    for: 15 * MINUTE,
    keepFiringFor: KEEP_FIRING_FOR,
    isExtended: true,
  },
  DeliveryEventLogStale: { kinds: ['event_log_behind'], for: 5 * MINUTE, isExtended: true },
  DeliveryEventLogGap: { kinds: ['event_log_gap'], isExtended: true },
  DeliveryDlqGrowing: { kinds: ['dlq_growing'], for: 2 * MINUTE, keepFiringFor: KEEP_FIRING_FOR },
  DeliveryDlqExpiringSoon: { kinds: ['dlq_expiring'], severity: 'critical', for: 15 * MINUTE },
  DeliveryDlqAgeHigh: { kinds: ['dlq_old'], for: 15 * MINUTE, isExtended: true },
  DeliveryDlqNearlyFull: { kinds: ['dlq_nearly_full'], for: 15 * MINUTE, isExtended: true },
  DeliveryFailureCallbackStuck: {
    kinds: ['callbacks_stuck'],
    for: 15 * MINUTE,
    // After a restart, auto-cancel evaluates its rules shortly after the walk.
    keepFiringFor: 2 * MINUTE,
    isExtended: true,
  },
  DeliveryFailureCallbackFailed: {
    kinds: ['callbacks_failing'],
    for: 30 * MINUTE,
    keepFiringFor: KEEP_FIRING_FOR,
    isExtended: true,
  },
  DeliveryFlowControlBacklogGrowing: {
    kinds: ['waitlist_growing'],
    for: 15 * MINUTE,
    keepFiringFor: KEEP_FIRING_FOR,
    label: 'flow_control_key',
  },
  DeliveryWaitlistStalled: { kinds: ['waitlist_stalled'], for: 10 * MINUTE, label: 'flow_control_key' },
  DeliveryDispatchPausedWithBacklog: { kinds: ['paused_with_backlog'], label: 'flow_control_key' },
  DeliveryScheduleMissed: { kinds: ['schedule_missed'], label: 'schedule' },
  DeliveryScheduleLate: { kinds: ['schedule_late'], label: 'schedule' },
  DeliveryAutoCancelUnresolved: { kinds: ['cancel_unresolved'], severity: 'critical', for: 5 * MINUTE, label: 'rule' },
  DeliveryAutoCancelBreakerOpen: { kinds: ['breaker_open'], label: 'breaker' },
  DeliveryAutoCancelPaused: { kinds: ['auto_cancel_paused'], severity: 'info', hasNoRunbook: true },
  DeliveryAutoCancelFailed: { kinds: ['auto_cancel_failed'], for: MINUTE, hasNoRunbook: true },
  DeliveryServiceUnavailable: {
    kinds: ['service_unavailable'],
    severity: 'critical',
    for: 15 * SECOND,
    // Resolves after DeliveryBlind, which it inhibits.
    keepFiringFor: MINUTE,
    isOfAgent: true,
  },
  DeliveryDatabaseAway: {
    kinds: ['database_away'],
    severity: 'critical',
    for: 3 * MINUTE,
    isOfAgent: true,
  },
  DeliveryStoreFailing: {
    kinds: ['store_failing'],
    severity: 'critical',
    for: 2 * MINUTE,
    isOfAgent: true,
  },
  DeliveryNotificationsFailing: {
    kinds: ['notifications_failing'],
    severity: 'critical',
    for: 10 * MINUTE,
    label: 'notifier',
    isOfAgent: true,
  },
  DeliveryConfigReloadFailed: { kinds: ['reload_refused'], for: 5 * MINUTE, isOfAgent: true, isExtended: true },
} as const satisfies Readonly<Record<`Delivery${string}`, Definition>>;

export type BuiltinAlert = keyof typeof builtinAlerts;

export const BUILTIN_ALERTS = Object.keys(builtinAlerts) as readonly BuiltinAlert[];

/** Returns the definition of an alert with defaults. */
export function builtinAlert(
  name: BuiltinAlert,
): Definition & Required<Pick<Definition, 'severity' | 'for' | 'keepFiringFor'>> {
  return { severity: 'warning', for: 0, keepFiringFor: 0, ...builtinAlerts[name] };
}

export const isAtLeast = (severity: CheckSeverity, lowest: CheckSeverity): boolean =>
  CHECK_SEVERITIES.indexOf(severity) <= CHECK_SEVERITIES.indexOf(lowest);

export function sentAlerts(options: BuiltinOptions): readonly BuiltinAlert[] {
  if (!options) return [];
  const { severity: lowest, disable, extended } = options;
  return BUILTIN_ALERTS.filter(name => {
    const { kinds, severity, isExtended = false } = builtinAlert(name);
    if (isExtended && !extended) return false;
    return isAtLeast(severity, lowest) && kinds.some(kind => !disable.includes(kind));
  });
}
