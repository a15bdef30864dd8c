/** `by`: name of the operator, recorded in the journal. */
export type OperatorCommand =
  | { readonly kind: 'approve'; readonly action: string; readonly by: string }
  | { readonly kind: 'pause' | 'resume'; readonly reason: string; readonly by: string };

/** `result`: JSON for the operator. `why`: error message for the operator. `waiting`: no agent has executed the order yet. */
export type CommandResult =
  | { readonly ok: true; readonly result?: unknown }
  | { readonly ok: false; readonly why: string }
  | 'waiting';
