import type { Change } from './change.ts';
import type { FinalOutcome, JournalTarget } from './journal.ts';

/** Records of one account that wait for the receiver, and that one commit brings, at most. */
export const MOST_RECORDS = 10_000;

/** A dead letter, without anything that it carries. Texts are bounded. */
export interface RecordedLetter {
  readonly dlqId: string | undefined;
  readonly messageId: string | undefined;
  /** When it came into the queue, milliseconds since the Unix epoch; undefined where the service does not tell. */
  readonly enteredAt: number | undefined;
  /** Scheme, host and port of the destination. */
  readonly origin: string | undefined;
  readonly method: string | undefined;
  /** Of the last attempt; 0 when there was no answer. */
  readonly status: number | undefined;
  readonly topic: string | undefined;
  readonly queue: string | undefined;
  readonly schedule: string | undefined;
  readonly workflowRunId: string | undefined;
}

/** Why a dead letter is no longer listed. */
export type DepartureReason = 'expired' | 'removed' | 'unknown';

type Labels = Readonly<Record<string, string>>;

/** What a log record is about. Times: milliseconds since the Unix epoch. */
export type RecordedThing =
  | { readonly kind: 'dlq_entered'; readonly letter: RecordedLetter | undefined }
  | {
      readonly kind: 'dlq_left';
      readonly reason: DepartureReason;
      /** Since when it was known, in whole seconds. */
      readonly since: number;
      readonly letter: RecordedLetter | undefined;
    }
  | {
      readonly kind: 'cancel_ended';
      readonly action: string;
      readonly rule: string;
      readonly mode: 'plan' | 'approve' | 'enforce';
      readonly outcome: FinalOutcome;
      readonly reason: string;
      readonly target: JournalTarget;
    }
  | {
      readonly kind: 'alert';
      readonly status: 'firing' | 'resolved';
      readonly labels: Labels;
      readonly startsAt: number;
    }
  /** Events between these times may be missing; undefined where the log does not say. */
  | { readonly kind: 'gap'; readonly from: number | undefined; readonly to: number | undefined };

/** One log record, as it is stored until the receiver took it. */
export type LogRecord = RecordedThing & {
  /** Unique in its account, and the same however often it is made or sent. */
  readonly id: string;
  /** When it happened; undefined where nothing says. */
  readonly at: number | undefined;
};

/** What one commit brings. */
export interface RecordBatch {
  readonly records: readonly LogRecord[];
  /** So many more there were no room for: they are dropped. */
  readonly dropped: number;
}

/** Takes log records, each in the commit that makes it true. */
export interface Records {
  /** Nothing where log records are off. */
  post(account: string, batch: RecordBatch): RecordPosting;
}

/** Records on their way into the store. */
export interface RecordPosting {
  /** Rows to commit, in the transaction that makes them true. */
  changes(): readonly Change[];
  /** To be called once they are committed: from then on they may be sent. */
  send(): void;
}

export const NO_RECORDS: RecordPosting = { changes: () => [], send: () => undefined };
