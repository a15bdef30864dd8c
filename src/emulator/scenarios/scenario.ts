/** A course of events that the workload follows. */
export interface Scenario {
  /** One line for people who choose. */
  readonly description: string;
  /** Share (0 to 1) of messages to a destination that fail for good, from its usual share and the time since the workload began. */
  doomed(usual: number, elapsedMs: number): number;
  /** Whether people come by to retry or remove dead letters. */
  readonly attended: boolean;
}
