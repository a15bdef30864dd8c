import type { EventState } from './message.ts';

/** What is known of an account's flow-control keys. */
export interface FlowControlFacts {
  /** Waitlist size by key. */
  readonly waitlists: ReadonlyMap<string, number>;
}

/** Messages of one selection of the dead-letter queue; the times are milliseconds since the Unix epoch, absent when there is none. */
export interface DlqSelection {
  readonly messages: number;
  readonly oldest: number | undefined;
  readonly newest: number | undefined;
}

export interface DlqFacts {
  /** By filter name; `all` is the whole queue. */
  readonly filters: ReadonlyMap<string, DlqSelection>;
}

export interface EventsFacts {
  /** Events inside the window, by state. */
  readonly recent: Readonly<Record<EventState, number>>;
  readonly windowMs: number;
  /** Time of the newest event ever seen, milliseconds since the Unix epoch. */
  readonly newest: number | undefined;
}
