/** Severities of findings, the highest first. */
export const CHECK_SEVERITIES = ['critical', 'warning', 'info'] as const;
export type CheckSeverity = (typeof CHECK_SEVERITIES)[number];

export const CHECK_KINDS = [
  'token_rejected',
  'service_unavailable',
  'data_withdrawn',
  'data_stale',
  'round_stale',
  'rate_limited',
  'rows_unreadable',
  'lists_missing',
  'filter_failing',
  'budget_low',
  'clock_skew',
  'event_log_behind',
  'event_log_gap',
  'dlq_growing',
  'dlq_first_entry',
  'dlq_old',
  'dlq_expiring',
  'retention_too_short',
  'dlq_nearly_full',
  'callbacks_stuck',
  'callbacks_failing',
  'messages_failing',
  'messages_failing_slowly',
  'messages_late',
  'deliveries_stalled',
  'destination_failing',
  'retries_high',
  'waitlist_growing',
  'waitlist_stalled',
  'paused_with_backlog',
  'schedule_missed',
  'schedule_late',
  'breaker_open',
  'auto_cancel_paused',
  'auto_cancel_failed',
  'cancel_unresolved',
  'notifications_failing',
  'store_failing',
  'reload_refused',
  'database_away',
] as const;
export type CheckKind = (typeof CHECK_KINDS)[number];

/** Display names of problems, if they differ from the API names. */
const KIND_WORDS: Readonly<Partial<Record<CheckKind | 'not_shown', string>>> = {
  token_rejected: 'token rejected',
  service_unavailable: 'service down',
  round_stale: 'round overdue',
  rows_unreadable: 'data incomplete',
  budget_low: 'call budget low',
  dlq_growing: 'dead letters growing',
  dlq_first_entry: 'first dead letters',
  dlq_old: 'dead letters old',
  dlq_expiring: 'dead letters expiring',
  dlq_nearly_full: 'queue nearly full',
  auto_cancel_paused: 'auto-cancel paused',
  auto_cancel_failed: 'auto-cancel failed',
  messages_failing_slowly: 'slow burn',
  retries_high: 'many retries',
  not_shown: 'cannot be shown',
};

export const kindWords = (kind: CheckKind | 'not_shown'): string => KIND_WORDS[kind] ?? kind.replaceAll('_', ' ');
