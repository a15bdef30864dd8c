import type { FlowState } from '../../model/flow-state.ts';

type Text = string | null;
type Num = number | null;

type Data = 'fresh' | 'partial' | 'stale' | 'withdrawn' | 'not_read';

interface Change {
  readonly by: number;
  readonly overSeconds: number;
}

interface Failure {
  readonly reason: string;
  readonly message: string;
}

export interface CheckedRound {
  readonly collector: string;
  readonly round: string;
  readonly everySeconds: number;
  readonly state: 'ok' | 'partial' | 'failing' | 'stale' | 'withdrawn' | 'waiting' | 'not_due' | 'not_read';
  readonly dataAt: Text;
  readonly consecutiveFailures: number;
  readonly failure: Failure | null;
  readonly retryAt: Text;
}

export interface CheckedKey {
  readonly key: string;
  readonly waiting: number | null;
  readonly change: Change | null;
  readonly state: FlowState | null;
  readonly parallelismLimit: Num;
  readonly parallelismInUse: Num;
  readonly rateLimit: Num;
  readonly rateUsed: Num;
  readonly paused: boolean | null;
}

export interface CheckedSchedule {
  readonly name: string;
  readonly state: 'ok' | 'missed' | 'late' | 'failing' | 'unknown';
  readonly lastStarted: Text;
  readonly lastDelivered: Text;
  readonly next: Text;
  readonly missed: number;
  readonly late: number;
}

/** The part of an account's API view that checks read. Null: unknown. Times are ISO 8601 texts. */
export interface CheckedAccount {
  readonly serviceNow: string;
  readonly clockSkewSeconds: Num;
  readonly rounds: readonly CheckedRound[];
  readonly deadLetters: {
    readonly enabled: boolean;
    readonly data: Data;
    readonly messages: Num;
    readonly most: Num;
    readonly entered: Num;
    readonly left: { readonly expired: number; readonly removed: number } | null;
    readonly oldestEntered: Text;
    readonly retentionSeconds: Num;
    readonly nextExpiry: Text;
    readonly filters: readonly {
      readonly name: string;
      readonly messages: Num;
      readonly failure: (Failure & { readonly since: Text; readonly contradicted: boolean }) | null;
    }[];
    readonly kinds: {
      readonly largest: readonly {
        readonly responseStatus: string;
        readonly urlHost: string;
        readonly route: string;
        readonly messages: number;
      }[];
    };
    readonly callbacks: Readonly<Record<string, number>> | null;
    readonly suspected: Num;
    readonly oldestInProgress: Text;
  };
  readonly events: {
    readonly enabled: boolean;
    readonly data: Data;
    readonly total: Readonly<Record<string, number>>;
    readonly finished: Readonly<Record<string, number>>;
    readonly overdue: number;
    readonly objectives: { readonly delivered: number; readonly onTime: number; readonly onTimeWithinSeconds: number };
    readonly inFlight: Num;
    readonly newest: Text;
    readonly gaps: number;
  };
  readonly flowControl: { readonly enabled: boolean; readonly data: Data; readonly rows: readonly CheckedKey[] };
  readonly schedules: readonly CheckedSchedule[];
  readonly calls: {
    readonly budgetRemaining: Num;
    readonly budgetPerDay: number;
    readonly tokenRejected: boolean | null;
  };
}
