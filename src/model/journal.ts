import type { Predicate } from './finding.ts';

/** How an action ended, for good. */
export const FINAL_OUTCOMES = [
  /** Only planned: nothing was sent, nothing will be. */
  'planned',
  /** The service says that the callback is cancelled. */
  'confirmed',
  /** It ended by itself before the cancel could count. */
  'superseded',
  /** The service no longer lists the entry. */
  'gone',
  /** The service refused. */
  'rejected',
  /** Still in progress after the last attempt, or the service calls its information invalid. */
  'gave_up',
  /** Nothing was sent in time. */
  'expired',
  /** Blind: the service says that none was in progress. */
  'not_in_progress',
  /** Blind: the service accepted, and nothing can be read back. */
  'accepted_unverified',
  /** Blind: it is unknown whether the service cancelled. */
  'unknown_final',
] as const;

export type FinalOutcome = (typeof FINAL_OUTCOMES)[number];

/** What the service answered to a cancel. `unknown`: 5xx, a redirect that means nothing, a timeout, a reset: it may have happened. */
export type CancelAnswer =
  | { readonly kind: 'accepted' | 'refused' | 'missing' | 'denied' | 'unknown'; readonly status: number | undefined }
  | { readonly kind: 'limited'; readonly status: number; readonly retryAfter: number | undefined }
  /** Surely nothing reached the service. */
  | { readonly kind: 'not_sent'; readonly why: string };

/** What an entry is, without anything that it carries: enough to notify its owner of what the callback would have reported. */
export interface JournalTarget {
  readonly account: string;
  /** What was, or would be, sent as the id. */
  readonly id: string;
  readonly dlqId: string | undefined;
  readonly messageId: string | undefined;
  readonly workflowRunId: string | undefined;
  readonly url: string | undefined;
  readonly workflowUrl: string | undefined;
  readonly responseStatus: number | undefined;
  readonly episode: string;
}

/** Who asks for an action: of another rule, mode or policy neither its grace nor its approval says anything. */
export interface Asker {
  readonly rule: string;
  readonly mode: 'plan' | 'approve' | 'enforce';
  /** Hash of the rules that judged. */
  readonly policy: string;
}

/** Steps of one action, in the order in which they may come. */
export type JournalStep =
  | {
      readonly step: 'marked' | 'awaiting_approval';
      readonly rule: string;
      readonly mode: Asker['mode'];
      readonly policy: string;
      readonly target: JournalTarget;
      readonly evidence: readonly Predicate[];
      /** Grace or approval ends, milliseconds since the Unix epoch. */
      readonly until: number;
    }
  | { readonly step: 'cleared'; readonly reason: string }
  | { readonly step: 'approved'; readonly by: string; readonly order?: string | undefined }
  | {
      readonly step: 'intent';
      readonly attempt: number;
      readonly rule: string;
      readonly mode: 'approve' | 'enforce';
      readonly blind: boolean;
      readonly target: JournalTarget;
      readonly evidence: readonly Predicate[];
      /** Nothing may be sent after this. */
      readonly sendBy: number;
      /** Hash of the rules that judged. */
      readonly policy: string;
      /** The one that acts, where replicas share the account's store. */
      readonly replica?: string | undefined;
      readonly approvedBy?: string | undefined;
    }
  | { readonly step: 'answered'; readonly attempt: number; readonly answer: CancelAnswer }
  | {
      readonly step: 'ended';
      readonly outcome: FinalOutcome;
      readonly rule: string;
      readonly mode: 'plan' | 'approve' | 'enforce';
      readonly reason: string;
      readonly target: JournalTarget;
      /** Of a plan, which has no intent. */
      readonly evidence?: readonly Predicate[] | undefined;
      /** The answer was lost: another client may have cancelled. */
      readonly unproven?: boolean | undefined;
    };

/** Pause, resume, breaker opened, breaker reset, refused order. `order`: UUID of the operator's order; older lines have none. */
export type StopStep =
  | {
      readonly step: 'paused' | 'resumed';
      readonly by: string;
      readonly reason: string;
      readonly order?: string | undefined;
    }
  | { readonly step: 'breaker_opened'; readonly breaker: Breaker; readonly reason: string }
  | {
      readonly step: 'breaker_reset';
      readonly breaker: Breaker;
      readonly by: string;
      readonly reason: string;
      readonly order?: string | undefined;
    }
  | {
      readonly step: 'order_refused';
      readonly kind: 'approve' | 'reset-breaker';
      /** The action or the breaker. */
      readonly about: string;
      readonly by: string;
      readonly reason: string;
      readonly order: string;
    };

export const BREAKERS = ['candidates', 'errors', 'lost_races'] as const;
export type Breaker = (typeof BREAKERS)[number];

/** One line of the journal: never changed, never taken away. `at`: milliseconds since the Unix epoch. */
export type JournalEntry = { readonly at: number } & (
  | ({ readonly action: string } & JournalStep)
  | ({ readonly action?: undefined } & StopStep)
);

export interface AutoCancelNumbers {
  /** Stuck callbacks at the last decision, by rule. */
  readonly candidates: ReadonlyMap<string, number>;
  readonly actions: readonly {
    readonly rule: string;
    readonly mode: string;
    readonly outcome: string;
    readonly count: number;
    /** A time at which there was none yet, milliseconds since the Unix epoch; undefined while there is none. */
    readonly since?: number;
  }[];
  /** Decisions to do nothing, since this process began. */
  readonly skips: readonly {
    readonly rule: string;
    readonly reason: string;
    readonly count: number;
    readonly since: number;
  }[];
  readonly breakers: ReadonlyMap<string, boolean>;
  readonly isPaused: boolean;
  /** When the oldest cancel of a rule was intended whose end is not known, milliseconds since the Unix epoch. */
  readonly unresolved: ReadonlyMap<string, number>;
  /** Cancels that the limits leave: of all rules, then of each. */
  readonly budget: readonly { readonly rule: string | undefined; readonly left: number }[];
}
