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
