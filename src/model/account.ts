/** Limits of an account's plan, in base units: bytes, seconds or a count. */
export const ACCOUNT_LIMITS = [
  'message_size_bytes',
  'requests_per_day',
  'requests_per_day_hard',
  'requests_per_second',
  'endpoints_per_topic',
  'dlq_size',
  'retries',
  'topics',
  'schedules',
  'events_size',
  'delay_seconds',
  'parallelism',
  'global_parallelism',
  'queues',
  'request_timeout_seconds',
] as const;

export type AccountLimit = (typeof ACCOUNT_LIMITS)[number];

/** Unlimited and unknown limits are absent. */
export type AccountLimits = Readonly<Partial<Record<AccountLimit, number>>>;

/** An account's record, without secrets. Unlimited and unreported values are absent. */
export interface AccountRecord {
  readonly plan?: string | undefined;
  readonly state?: string | undefined;
  readonly limits: AccountLimits;
  /** Retention of the dead-letter queue (s). */
  readonly dlqRetentionSeconds?: number | undefined;
}

export interface RecordedAccount extends AccountRecord {
  /** Time of the token reset that returned the record (ms since the Unix epoch). */
  readonly resetAt: number;
  /** Fingerprint of the token from the same response. */
  readonly token: string;
}
