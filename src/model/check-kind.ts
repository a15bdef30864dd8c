/** Severities of findings, the highest first. */
export const CHECK_SEVERITIES = ['critical', 'warning', 'info'] as const;
export type CheckSeverity = (typeof CHECK_SEVERITIES)[number];

/** Kinds of findings of built-in checks. */
export const CHECK_KINDS = [
  'token_rejected',
  'service_unavailable',
  'data_withdrawn',
  'data_stale',
  'rate_limited',
  'rows_unreadable',
  'lists_missing',
  'filter_failing',
  'budget_low',
  'event_log_behind',
  'event_log_gap',
  'dlq_growing',
  'dlq_old',
  'dlq_expiring',
  'dlq_nearly_full',
  'callbacks_stuck',
  'callbacks_failing',
  'messages_failing',
  'messages_late',
  'deliveries_stalled',
  'retries_high',
  'waitlist_growing',
  'ghost_slots',
  'waitlist_stalled',
  'paused_with_backlog',
  'schedule_missed',
  'schedule_late',
  'breaker_open',
  'auto_cancel_paused',
  'cancel_unresolved',
  'notifications_failing',
  'push_failing',
  'store_failing',
  'reload_refused',
  'account_uncollected',
  'database_away',
] as const;
export type CheckKind = (typeof CHECK_KINDS)[number];
