/** Whether something that a rule asks holds. `unknown`: there is no evidence for it. */
export type Holds = true | false | 'unknown';

export interface Predicate {
  /** As it is called in the configuration: `match.label`, `stuckWhen.inProgressFor`. */
  readonly name: string;
  readonly holds: Holds;
  /** What was found, for people: `3h12m`, `nightly`; never a body, header or secret. */
  readonly found: string;
  /** What the rule asks for, for people: `at least 48h`. */
  readonly asked: string;
}

/** What a rule says of a sighting. Only `stuck` may be acted upon. */
export type Verdict = 'stuck' | 'not_stuck' | 'unknown' | 'no_match';

export interface Finding {
  readonly rule: string;
  readonly verdict: Verdict;
  /**
   * Why, as one word: `stuck`, or of the first predicate that does not hold its snake-case name (`in_progress_for`,
   * `past_retry_window`, `no_match`, `excepted`, `no_id` …); `unknown_…` before it where there is no evidence.
   */
  readonly reason: string;
  readonly predicates: readonly Predicate[];
}
