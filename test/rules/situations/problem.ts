import type { Input } from './course.ts';
import type { Situation } from './situation.ts';

/** Situations in which every problem is replayed: see variants.ts. */
export type Variant =
  | 'restart'
  | 'lost store'
  | 'first hour'
  | 'low traffic'
  | 'unreadable rows'
  | 'blind hour'
  | 'blind day'
  | 'catching up';

export interface ProblemCase {
  readonly kind: string;
  /** Severity, kind and subject. */
  readonly what: string;
  readonly input: Input;
  readonly objectives?: Situation['objectives'];
  /** First and last minute of the expected start. */
  readonly at: readonly [number, number];
  /** Inputs that must not be reported. */
  readonly below: Readonly<Record<string, Omit<Situation, 'minutes'>>>;
  /** Input that resolves the problem. */
  readonly recovery: Input;
  /** Maximum time until it is resolved (minutes). */
  readonly memory: number;
  /** Variants that do not apply, each with the reason. */
  readonly exempt?: Readonly<Partial<Record<Variant, string>>>;
  /** Whether it is found in the event log, which an agent reads in chronological order after it was down. */
  readonly ofLog?: true;
  /** Time after the loss of the store until it is reported again (minutes), if that is longer than most checks wait. */
  readonly regained?: number;
}

/** Reasons for exemptions. */
export const ON_DETECTION = 'fires on detection, however old the cause is';
export const ONE = 'one is enough';
