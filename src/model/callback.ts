import type { DlqEntry } from './message.ts';

/**
 * An entry of the dead-letter queue whose failure callback is in progress, or of which the service says nothing and a
 * rule asks for it, as complete walks have seen it. Times: milliseconds since the Unix epoch, by our own clock.
 */
export interface CallbackSighting {
  /** The row of the last complete walk. */
  readonly entry: DlqEntry;
  /** Begin of the first and of the last complete walk of this episode that saw it. */
  readonly firstSeenAt: number;
  readonly lastSeenAt: number;
  /** Complete walks of this episode that saw it, both included. */
  readonly snapshots: number;
  /**
   * What tells one run of the callback from the next: ended by any other state, by a complete walk that did not list the
   * entry, by a pause between two complete walks that is too long, and by another message of the callback.
   */
  readonly episode: string;
}

/** What the event log said of the messages of an entry. Times: milliseconds since the Unix epoch. */
export interface Silence {
  /** Of the newest event; undefined when unknown. */
  readonly lastEventAt: number | 'none' | undefined;
  /** When the log was asked: of what came later it said nothing. */
  readonly askedAt: number;
}

export interface CallbackFacts {
  readonly at: number;
  /** Complete walks that ended since this process began. */
  readonly walks: number;
  readonly sightings: readonly CallbackSighting[];
  /** There are more than can be tracked, or a later walk met rows that it could not read: what is here is not the whole. */
  readonly isPartial: boolean;
}
