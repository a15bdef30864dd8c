export const FLOW_STATES = ['ok', 'throttled', 'paused', 'draining', 'starved', 'ghost_slots', 'unknown'] as const;
export type FlowState = (typeof FLOW_STATES)[number];

/** The evidence for a state; for `unknown`, what prevents an evaluation. */
export const FLOW_REASONS = [
  'nothing_waits',
  'moving',
  'rate_limit',
  'parallelism_limit',
  'paused',
  'waitlist_falls',
  'slots_free',
  'slots_claimed',
  'not_reported',
  'log_not_read',
  'log_without_keys',
  'log_late',
  'too_many_attempts',
  'too_many_keys',
  'too_few_reads',
  'began_before',
  'not_proven',
  'retries_may_hold',
] as const;
export type FlowReason = (typeof FLOW_REASONS)[number];
