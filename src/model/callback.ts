import type { DlqEntry } from './message.ts';

/**
 * A dead letter with a failure callback in progress, as seen by complete walks. Includes entries without a reported state if a rule
 * tracks them. Times are in milliseconds since the Unix epoch, by the agent's clock.
 */
export interface CallbackSighting {
  /** The row of the last complete walk. */
  readonly entry: DlqEntry;
  /** Starts of the first and the last complete walk that listed the callback in this episode. */
  readonly firstSeenAt: number;
  readonly lastSeenAt: number;
  /** Number of complete walks that listed the callback in this episode. */
  readonly snapshots: number;
  /**
   * Id of one run of the callback. A changed state or message, a missing entry, a long gap between walks or a clock step ends
   * the episode.
   */
  readonly episode: string;
}

/** Result of an event-log query for the messages of an entry. Times are in milliseconds since the Unix epoch. */
export interface Silence {
  /** Time of the newest event; `none` if there is no event, undefined if unknown. */
  readonly lastEventAt: number | 'none' | undefined;
  /** Time of the query. Later events are not included. */
  readonly askedAt: number;
}

export interface CallbackFacts {
  readonly at: number;
  /** Number of complete walks since the process started. */
  readonly walks: number;
  /** Maximum time between two walks within an episode (ms). */
  readonly maxGap: number;
  readonly sightings: readonly CallbackSighting[];
  /** Whether the list is incomplete: there were too many callbacks to track, or a later walk had unreadable rows. */
  readonly isPartial: boolean;
  /** Whether the last complete walk found the state of any failure callback, in progress or not. */
  readonly reportsStates: boolean;
}

/** Maximum delay before a retry (ms). The service waits min(24 h, e^(2.5 n) s) before retry n. */
const MAX_DELAY = 86_400_000;
/** Number of the first retry with the maximum delay. */
const FIRST_MAX = 5;

/** Returns the total delay of `retries` retries (ms), for example 33 min for three. */
export function retryDelays(retries: number): number {
  let sum = Math.max(0, retries - FIRST_MAX + 1) * MAX_DELAY;
  for (let n = 1; n <= retries && n < FIRST_MAX; n++) sum += Math.exp(2.5 * n) * 1000;
  return sum;
}

/** Returns the maximum duration of a healthy callback (ms). */
export function retryWindow(retries: number, timeout: number): number {
  return retryDelays(retries) + (retries + 1) * timeout;
}

/** Defaults of `stuckWhen`. Durations in milliseconds. */
export const STUCK_DEFAULTS = {
  inProgressFor: 48 * 3_600_000,
  pastRetryWindow: 1.5,
  assumeMaxRetries: 5,
  assumeTimeout: 900_000,
};

/** Returns the time after which a callback is past its retries (ms). Assumes at least `assumeMaxRetries` retries. */
export function retriesEndAfter(
  { maxRetries }: Pick<DlqEntry, 'maxRetries'>,
  { pastRetryWindow, assumeMaxRetries, assumeTimeout }: Omit<typeof STUCK_DEFAULTS, 'inProgressFor'>,
) {
  const isReported = maxRetries !== undefined && Number.isInteger(maxRetries);
  const retries = isReported ? Math.max(maxRetries, assumeMaxRetries) : assumeMaxRetries;
  return { retries, ms: pastRetryWindow * retryWindow(retries, assumeTimeout) };
}

/** Whether a callback was in progress for longer than the defaults of `stuckWhen`, not counting the time since the last walk. */
export function isSuspected({ entry, firstSeenAt, lastSeenAt }: CallbackSighting): boolean {
  const seenFor = lastSeenAt - firstSeenAt;
  const isLong = seenFor >= STUCK_DEFAULTS.inProgressFor && seenFor > retriesEndAfter(entry, STUCK_DEFAULTS).ms;
  return entry.callbackState === 'in_progress' && isLong;
}
