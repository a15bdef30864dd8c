import type { DlqEntry } from './message.ts';

/**
 * An entry of the dead-letter queue with a failure callback in progress, as complete walks have seen it. Includes entries without a
 * reported state if a rule tracks those. Times: milliseconds since the Unix epoch, by the agent's clock.
 */
export interface CallbackSighting {
  /** The row of the last complete walk. */
  readonly entry: DlqEntry;
  /** Start of the first and of the last complete walk of this episode that saw it. */
  readonly firstSeenAt: number;
  readonly lastSeenAt: number;
  /** Number of complete walks of this episode that saw it. */
  readonly snapshots: number;
  /** Id of one run of the callback. Another state or message, a missing entry or a long gap between walks ends it. */
  readonly episode: string;
}

/** Result of an event-log query for the messages of an entry. Times: milliseconds since the Unix epoch. */
export interface Silence {
  /** Time of the newest event; undefined if unknown. */
  readonly lastEventAt: number | 'none' | undefined;
  /** Time of the query. Later events are not included. */
  readonly askedAt: number;
}

export interface CallbackFacts {
  readonly at: number;
  /** Complete walks since the process started. */
  readonly walks: number;
  readonly sightings: readonly CallbackSighting[];
  /** The list is incomplete: too many callbacks to track, or rows that a later walk could not read. */
  readonly isPartial: boolean;
  /** Whether the last complete walk found the state of any failure callback, in progress or not. */
  readonly reportsStates: boolean;
}
