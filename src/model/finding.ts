/** Whether a condition of a rule holds. `unknown`: no evidence. */
export type Tristate = true | false | 'unknown';

export interface Predicate {
  /** Configuration key of the predicate: `match.label`, `stuckWhen.inProgressFor`. */
  readonly name: string;
  readonly holds: Tristate;
  /** The actual value, as text: `3h12m`, `nightly`; never a body, header or secret. */
  readonly found: string;
  /** The required value, as text: `at least 48h`. */
  readonly asked: string;
}

/** Result of evaluating a rule for a sighting. Only `stuck` permits an action. */
export type Verdict = 'stuck' | 'not_stuck' | 'unknown' | 'no_match';

export interface RuleFinding {
  readonly rule: string;
  readonly verdict: Verdict;
  /**
   * `stuck`, or the first predicate that does not hold, in snake case (`in_progress_for`, `past_retry_window`, `no_match`,
   * `excepted`, `no_id` …), with the prefix `unknown_` if there is no evidence for it.
   */
  readonly reason: string;
  readonly predicates: readonly Predicate[];
}
