import type { Objectives } from '../../../src/metrics/objectives.ts';
import type { Input, Values } from './course.ts';

/** From the first minute until before the second. */
export type Span = readonly [from: number, to: number];

/** What happens to an account and to the agent that reads it. Minute 0 is midnight UTC. */
export interface Situation {
  readonly input: Input;
  readonly minutes: number;
  readonly objectives?: Partial<Objectives>;
  /** When no agent runs. The next one has read everything a minute after its start. */
  readonly down?: readonly Span[];
  /** Minutes at which an agent starts with an empty store, or with a restored backup. */
  readonly lost?: readonly number[];
  readonly restored?: readonly number[];
  /** When reads fail: all, the reads of a collector, or one of its rounds (`events sweep`). */
  readonly dark?: readonly (Span | readonly [...Span, collector: string])[];
  /** When reads contain unreadable rows. */
  readonly unreadable?: readonly Span[];
  /** When the agent reads the log since its last read in chronological order. */
  readonly catchingUp?: Span;
  /** The agent’s clock minus the service’s (s). */
  readonly clock?: Values;
}

/** A situation with everything that is reported in it: see expected.ts. */
export interface SituationCase extends Situation {
  readonly name: string;
  readonly reports: readonly string[];
  /** The only kind that is compared. Default: all. */
  readonly only?: string;
}

export const HOUR = 60;
export const DAY = 24 * HOUR;
export const FOREVER = 1e6;

export const within = (spans: readonly Span[] | undefined, minute: number): boolean =>
  spans?.some(([from, to]) => minute >= from && minute < to) ?? false;
/** Longest situation that is not only played in long tests (minutes). */
export const LONGEST = 12 * HOUR;
