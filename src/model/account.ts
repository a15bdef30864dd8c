/** What an account's plan limits, in base units: bytes, seconds, or a plain number. */
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

/** What is known of them: what is unlimited, or not known, is absent. */
export type AccountLimits = Readonly<Partial<Record<AccountLimit, number>>>;

/** What an account's record says, none of it secret. What it does not say, and what is unlimited, is absent. */
export interface AccountRecord {
  readonly plan?: string | undefined;
  readonly state?: string | undefined;
  readonly limits: AccountLimits;
  /** How long the dead-letter queue keeps messages. */
  readonly dlqRetentionSeconds?: number | undefined;
}

export interface RecordedAccount extends AccountRecord {
  /** When it was brought, milliseconds since the Unix epoch. */
  readonly resetAt: number;
  /** Stands for the token that came with it; see `fingerprint`. */
  readonly token: string;
}
