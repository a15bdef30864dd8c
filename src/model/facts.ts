import type { FlowControlEntry } from './message.ts';

/** What is known of an account's flow-control keys. */
export interface FlowControlFacts {
  /** Distinct keys that the service lists; undefined before it has. */
  readonly keys: number | undefined;
  readonly shown: readonly FlowControlEntry[];
  /** Keys that are wanted and beyond the cap, and how many wait on them together. */
  readonly beyondCap: number;
  readonly beyondCapWaiting: number;
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
