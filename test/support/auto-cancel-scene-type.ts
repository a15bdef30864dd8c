import type { AccountAutoCancel, Explanation } from '../../src/auto-cancel/account.ts';
import type { Journal } from '../../src/auto-cancel/journal.ts';
import type { Lease } from '../../src/auto-cancel/stages.ts';
import type { Clock } from '../../src/kit/clock.ts';
import type { CallbackSighting } from '../../src/model/callback.ts';
import type { JournalEntry } from '../../src/model/journal.ts';
import type { CallbackState, DlqEntry } from '../../src/model/message.ts';
import type { WorkflowRun } from '../../src/model/service.ts';
import type { Store } from '../../src/store/store.ts';
import type { ListPage, RunQuery } from '../../src/upstream/api.ts';
import type { Order } from './operators.ts';
import type { createTestLog } from './silent.ts';

/** Auto-cancel of one account, controlled by a test. */
export interface Scene {
  /** Completes a walk in which these callbacks were in progress. */
  list(words: string): void;
  /** Like `list`, but one minute later. Returns the new journal lines and skipped callbacks. */
  walk(words: string): Promise<string>;
  /** Advances time and runs due work. */
  wait(ms: number): Promise<string>;
  /** Completes the next walk, one minute later, with the same callbacks. */
  again(): Promise<string>;
  /** Completes three walks, which end the startup phase. */
  warm(): Promise<void>;
  /** Starts a new process on the same store, optionally with other rules. */
  restart(section?: object): Promise<void>;
  /** Keywords of the responses to the next cancels. */
  answers: string[];
  /** Callback states listed by the service. Default: in progress. */
  readonly states: Map<string, CallbackState | 'gone' | undefined>;
  /** States reported by the workflow source. An empty map means that no such source exists. */
  readonly workflowStates: Map<string, CallbackState>;
  /** Overridden fields by entry. */
  readonly rows: Map<string, Partial<DlqEntry>>;
  /** Message of the entry's callback, if the service reports it. */
  readonly messages: Map<string, string>;
  /** Time of the newest event by message; undefined if the log is unreadable. */
  readonly events: Map<string, number | undefined>;
  /** Responds to reads of workflow runs, page by page. Default: the service has no such list. */
  onRuns: (query: RunQuery) => Iterable<ListPage<WorkflowRun>>;
  /** Read requests to the service, each with its priority: for example, `look dlq`. */
  readonly asked: string[];
  /** Called during each request. `what`: the request, as in `asked`. */
  onAsked: (what: string, messageId: string) => unknown;
  /** Called during each look-up of events. */
  onEvents: (messageId: string) => unknown;
  /** Number of unreadable rows in each response. */
  readonly rejected: { dlq: number; events: number };
  /** Error thrown by all following requests. */
  failing: Error | undefined;
  /** Lets `count` more commits succeed; undefined removes the limit. */
  failCommitsAfter(count: number | undefined): void;
  /** Whether failed commits are written anyway. */
  failedCommitsAreWritten: boolean;
  isStopped: boolean;
  /** Lease of the newest process; undefined without replicas. */
  lease: Lease | undefined;
  readonly firing: Set<string>;
  /** Alerts with an unknown state. */
  readonly unknownAlerts: Set<string>;
  /** Hash of the rules, read by a process when it starts. */
  policy: string;
  /** Clock skew relative to the service (ms); undefined if unknown. */
  clockSkew: number | undefined;
  isFresh: boolean;
  eventsAreFresh: boolean;
  isPartial: boolean;
  hasFacts: boolean;
  /** Ids for which a cancel was sent. */
  readonly sent: string[];
  /** Called while a cancel waits for the request budget. */
  onTurn: (id: string, signal: AbortSignal) => unknown;
  /** Called before each cancel is sent. */
  onSend: (id: string) => void;
  readonly clock: Clock & { step(ms: number): void };
  /** Returns the total elapsed time (ms), independent of the wall clock and of restarts. */
  passed(): number;
  readonly store: Store;
  journal(): Journal;
  autoCancel(): AccountAutoCancel;
  /** Returns all callbacks of the last walk. */
  sightings(): readonly CallbackSighting[];
  /**
   * Issues an order as a separate process would, while the agent serves orders. Returns `obeyed` or the reason for a refusal.
   */
  order(order: Order): Promise<string>;
  pause(): Promise<string>;
  resume(): Promise<string>;
  explain(id: string): Explanation | undefined;
  /** Why the `candidates` breaker would have opened at the last decision if a rule could act. */
  wouldOpen(): string | undefined;
  lines(): Promise<JournalEntry[]>;
  readonly log: ReturnType<typeof createTestLog>;
}
