import type { Predicate } from './finding.ts';
import type { DlqEntry } from './message.ts';

export const FINAL_OUTCOMES = [
  /** Planned only: no request is ever sent. */
  'planned',
  /** The service reports the callback as cancelled. */
  'confirmed',
  /** The callback ended before the cancel could take effect. */
  'superseded',
  /** The service no longer lists the entry. */
  'gone',
  /** The service refused the cancel. */
  'rejected',
  /** Still in progress after the last attempt, or the service reports an invalid entry. */
  'gave_up',
  /** No cancel took effect: none was sent in time, or the service rejected the token or the rate. */
  'expired',
  /** Blind cancel: the service reports that no callback was in progress. */
  'not_in_progress',
  /** Blind cancel: accepted, but the agent cannot read the result. */
  'accepted_unverified',
  /** Blind cancel: it is unknown whether it took effect. */
  'unknown_final',
] as const;

export type FinalOutcome = (typeof FINAL_OUTCOMES)[number];

/** Results of planned callbacks. `in_progress`: still so when observation ended. `unknown`: not known to have ended by itself. */
export const PLAN_OUTCOMES = ['success', 'failed', 'in_progress', 'unknown'] as const;
export type PlanOutcome = (typeof PLAN_OUTCOMES)[number];
/** Number of plans, in total and by outcome. */
export type PlanCounts = Readonly<Record<'planned' | PlanOutcome, number>>;

/** Response to a cancel. `unknown`: 5xx, an unexpected redirect, a timeout or a reset; the cancel may have taken effect. */
export type CancelResponse =
  | { readonly kind: 'accepted' | 'refused' | 'missing' | 'denied' | 'unknown'; readonly status: number | undefined }
  | { readonly kind: 'limited'; readonly status: number; readonly retryAfter: number | undefined }
  /** The request certainly did not reach the service. */
  | { readonly kind: 'not_sent'; readonly why: string };

/** Identity of an entry without its content: enough to notify its owner of the failure. */
export interface JournalTarget
  extends Pick<DlqEntry, 'dlqId' | 'messageId' | 'workflowRunId' | 'url' | 'workflowUrl' | 'responseStatus'> {
  readonly account: string;
  /** Id sent in the cancel request. */
  readonly id: string;
  readonly episode: string;
  readonly callbackMessageId?: string | undefined;
}

/** Rule, mode and policy that request an action. A grace period or approval of one requester does not apply to another. */
export interface Requester {
  readonly rule: string;
  readonly mode: 'plan' | 'approve' | 'enforce';
  readonly policy: string;
}

/** Steps of one action, in order. Times are in milliseconds since the Unix epoch. */
export type JournalStep =
  | (Requester & {
      readonly step: 'marked' | 'awaiting_approval';
      readonly target: JournalTarget;
      readonly evidence: readonly Predicate[];
      /** End of the grace period, or deadline for the approval. */
      readonly until: number;
    })
  | { readonly step: 'cleared'; readonly reason: string }
  | { readonly step: 'approved'; readonly by: string; readonly order?: string | undefined }
  | (Requester & {
      readonly step: 'intent';
      readonly attempt: number;
      readonly mode: 'approve' | 'enforce';
      readonly blind: boolean;
      readonly target: JournalTarget;
      readonly evidence: readonly Predicate[];
      /** Deadline for the request. */
      readonly sendBy: number;
      /** The process that acts, if several share the store. */
      readonly replica?: string | undefined;
      readonly approvedBy?: string | undefined;
    })
  | { readonly step: 'answered'; readonly attempt: number; readonly answer: CancelResponse }
  | {
      readonly step: 'ended';
      readonly outcome: FinalOutcome;
      readonly rule: string;
      readonly mode: 'plan' | 'approve' | 'enforce';
      readonly reason: string;
      readonly target: JournalTarget;
      /** Set for plans, which have no intent. */
      readonly evidence?: readonly Predicate[] | undefined;
      /** Whether the response did not confirm the cancel, so it is unknown which client cancelled the callback. */
      readonly unproven?: boolean | undefined;
    }
  | {
      /** Ends the observation of a planned callback. */
      readonly step: 'observed';
      readonly outcome: PlanOutcome;
      readonly rule: string;
      readonly reason: string;
      readonly target: JournalTarget;
    };

/** What an operator did. `order`: UUID of the operator's order; absent in older lines. */
interface OperatorStep {
  readonly by: string;
  readonly reason: string;
  readonly order?: string | undefined;
}

/** Steps not about a single action: pauses, breakers and refused orders. */
export type StopStep =
  | (OperatorStep & { readonly step: 'paused' | 'resumed' })
  | { readonly step: 'breaker_opened'; readonly breaker: Breaker; readonly reason: string }
  | (OperatorStep & { readonly step: 'breaker_reset'; readonly breaker: Breaker })
  | (OperatorStep & {
      readonly step: 'order_refused';
      readonly order: string;
      readonly kind: 'approve' | 'reset-breaker';
      /** Action or breaker that the refused order names. */
      readonly about: string;
    });

export const BREAKERS = ['candidates', 'errors', 'lost_races'] as const;
export type Breaker = (typeof BREAKERS)[number];

/** One line of the journal, which is append-only. `at`: milliseconds since the Unix epoch. */
export type JournalEntry = { readonly at: number } & (
  | ({ readonly action: string } & JournalStep)
  | ({ readonly action?: undefined } & StopStep)
);

/** Numbers of one account. Times are in milliseconds since the Unix epoch. */
export interface AutoCancelNumbers {
  /** Number of stuck callbacks at the last decision, by rule. */
  readonly candidates: ReadonlyMap<string, number>;
  readonly actions: readonly {
    readonly rule: string;
    readonly mode: string;
    readonly outcome: string;
    readonly count: number;
  }[];
  /** Number of decisions not to act since the process started. */
  readonly skips: readonly {
    readonly rule: string;
    readonly reason: string;
    readonly count: number;
  }[];
  /** Plans by rule. */
  readonly plans: ReadonlyMap<string, PlanCounts>;
  readonly breakers: ReadonlyMap<string, boolean>;
  readonly isPaused: boolean;
  /** Start of the oldest unfinished cancel, by rule. */
  readonly unresolved: ReadonlyMap<string, number>;
  /** Number of cancels that the limits still allow: for all rules together (`rule` is undefined), then for each rule. */
  readonly budget: readonly { readonly rule: string | undefined; readonly left: number }[];
}
