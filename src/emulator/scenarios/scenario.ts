import type { Dialect } from '../dialect.ts';
import type { FaultSeed } from '../fault.ts';

/**
 * A course of events. Times in milliseconds; `elapsedMs` counts from the beginning of the workload, which is a while before
 * the emulator starts, and is below zero for what is made up of the time before.
 */
export interface Scenario {
  /** One line for people who choose. */
  readonly description: string;
  /** Share (0 to 1) of messages to a destination that fail for good, from its usual share. */
  doomed(usual: number, elapsedMs: number): number;
  /** Whether people come by to retry or remove dead letters. */
  readonly attended: boolean;
  /** Mean duration of an attempt, from the usual one. */
  takesMs?(usual: number, elapsedMs: number): number;
  /** Share (0 to 1) of failure callbacks that never end. */
  stuck?(elapsedMs: number): number;
  /** Mean time between failed workflow runs; 12 minutes when absent. */
  readonly runFailsEveryMs?: number;
  /** The time up to which events are listed when it is `now`; both count from when the emulator started. Never goes back. */
  listedUntil?(now: number): number;
  /** What goes wrong with every request now; `now` counts from when the emulator started. */
  fault?(now: number): FaultSeed | undefined;
  /** How the service speaks in this scenario unless the options say otherwise. */
  readonly dialect?: Partial<Dialect>;
}
