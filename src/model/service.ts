import type { AccountRecord } from './account.ts';
import type { CallbackState, ListedRow } from './message.ts';

/** Rows that describe the service itself. Unreported fields are undefined. Times are in milliseconds since the Unix epoch. */

/** States of a run's messages. `unknown`: any other state. */
export const SCHEDULE_RUN_STATES = ['in_progress', 'success', 'fail', 'unknown'] as const;
export type ScheduleRunState = (typeof SCHEDULE_RUN_STATES)[number];

/** One schedule. Its header and body are not read. */
export interface ServiceSchedule extends ListedRow {
  readonly scheduleId: string;
  /** Five fields, without the time zone. */
  readonly cron?: string | undefined;
  /** Time zone of `cron` as the service writes it; UTC by default. */
  readonly tz?: string | undefined;
  /** URL, or name of a URL group. */
  readonly destination?: string | undefined;
  readonly createdAt?: number | undefined;
  readonly paused?: boolean | undefined;
  /** Start of the last run. A paused schedule has no new runs. */
  readonly lastRunAt?: number | undefined;
  /** Start of the next run. Also advances while the schedule is paused. */
  readonly nextRunAt?: number | undefined;
  /** Number of messages of the last run by state. A URL group has several. */
  readonly lastRunStates?: Readonly<Record<ScheduleRunState, number>> | undefined;
  readonly queue?: string | undefined;
  readonly flowControlKey?: string | undefined;
  readonly labels: readonly string[];
  /** The service's explanation why the last run failed, bounded and redacted. */
  readonly error?: string | undefined;
}

export interface ServiceQueue extends ListedRow {
  readonly name: string;
  readonly createdAt?: number | undefined;
  readonly updatedAt?: number | undefined;
  readonly parallelismLimit?: number | undefined;
  /** Number of waiting messages. Some services report it inaccurately. */
  readonly lag?: number | undefined;
  readonly paused?: boolean | undefined;
}

/** Parallel deliveries of all flow-control keys of an account. */
export interface GlobalParallelism {
  readonly limit?: number | undefined;
  readonly inUse?: number | undefined;
}

/** `unknown`: any other state. */
export const RUN_STATES = ['started', 'success', 'failed', 'canceled', 'unknown'] as const;
export type RunState = (typeof RUN_STATES)[number];

/** The failure function of a failed run. */
export interface FailureFunction {
  readonly state?: CallbackState | undefined;
  /** Due time of the next attempt. No other list reports it. */
  readonly nextDeliveryAt?: number | undefined;
}

/** One workflow run. Its steps are not read. */
export interface WorkflowRun extends ListedRow {
  readonly runId: string;
  readonly url?: string | undefined;
  readonly state: RunState;
  readonly createdAt?: number | undefined;
  readonly completedAt?: number | undefined;
  readonly dlqId?: string | undefined;
  readonly labels: readonly string[];
  readonly flowControlKey?: string | undefined;
  readonly failureFunction?: FailureFunction | undefined;
}

/** The account as the management API reports it, without secrets. */
export interface AccountUsage extends AccountRecord {
  /** Requests of the current UTC day. */
  readonly requestsToday?: number | undefined;
  readonly dlqMessages?: number | undefined;
}
