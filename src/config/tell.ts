/** Takes what the checks find, each with the path of where it stands. */
export interface Tell {
  fault(path: readonly PropertyKey[], message: string): void;
  /** Works, and should be otherwise. */
  warn(path: readonly PropertyKey[], message: string): void;
  /** Whether something stands at the path: what is merged from elsewhere does not. */
  isGiven(path: readonly PropertyKey[]): boolean;
}

/** Names that may be used elsewhere. */
export interface Known {
  readonly accounts: readonly string[];
  readonly alerts: readonly string[];
  readonly notifiers: readonly string[];
}
