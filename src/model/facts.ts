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
