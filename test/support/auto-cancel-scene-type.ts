import type { AccountAutoCancel } from '../../src/auto-cancel/account.ts';
import type { Explanation } from '../../src/auto-cancel/explain.ts';
import type { Journal } from '../../src/auto-cancel/journal.ts';
import type { Lease } from '../../src/auto-cancel/stages.ts';
import type { Clock } from '../../src/kit/clock.ts';
import type { CallbackSighting } from '../../src/model/callback.ts';
import type { JournalEntry } from '../../src/model/journal.ts';
import type { CallbackState, DlqEntry } from '../../src/model/message.ts';
import type { Store } from '../../src/store/store.ts';
import type { Order } from './operators.ts';
import type { createTestLog } from './silent.ts';

/** Auto-cancel of one account under the control of a test. */
export interface Scene {
  /** Ends a complete walk in which these were in progress. */
  list(words: string): void;
  /** The same one minute later, and gives what then was written and told. */
  walk(words: string): Promise<string>;
  /** Lets time pass, and what is due happen. */
  wait(ms: number): Promise<string>;
  /** The next complete walk, one minute later, with the same callbacks. */
  again(): Promise<string>;
  /** Three walks: the start is over. */
  warm(): Promise<void>;
  /** A new process on what is stored, whose rules may be others. */
  restart(section?: object): Promise<void>;
  /** Answers to the next cancels, in words. */
  answers: string[];
  /** States in which the service lists callbacks: in progress where nothing is said. */
  readonly states: Map<string, CallbackState | 'gone' | undefined>;
  /** States that the workflow source tells; while it is empty, there is no such source. */
  readonly workflowStates: Map<string, CallbackState>;
  /** What else is listed of an entry. */
  readonly rows: Map<string, Partial<DlqEntry>>;
  /** Of the entry's callback, where the service tells. */
  readonly messages: Map<string, string>;
  /** Newest events by message; undefined is a log that can't be read. */
  readonly events: Map<string, number | undefined>;
  /** What was asked of the service, and with which priority. */
  readonly asked: string[];
  /** What happens while the service answers, as `asked` has it, about a message. */
  onAsked: (what: string, messageId: string) => unknown;
  /** What happens while the log answers about a message. */
  onEvents: (messageId: string) => unknown;
  /** Rows of each answer that can't be read. */
  readonly rejected: { dlq: number; events: number };
  /** What is asked of the service from now on: fails with this. */
  failing: Error | undefined;
  /** From now on so many commits are made, and then no other; undefined: all. */
  failCommitsAfter(count: number | undefined): void;
  /** Commits that fail are written all the same. */
  failedCommitsAreWritten: boolean;
  isStopped: boolean;
  /** Of the newest process, which took the account from the one before. Undefined: there are no replicas. */
  lease: Lease | undefined;
  readonly firing: Set<string>;
  /** Alerts of which it is not known whether they fire. */
  readonly unknownAlerts: Set<string>;
  /** Hash of the rules, as a process takes it up at its start. */
  policy: string;
  /** Difference to the service's clock (ms), or undefined if it is unknown. */
  clockSkew: number | undefined;
  isFresh: boolean;
  eventsAreFresh: boolean;
  isPartial: boolean;
  hasFacts: boolean;
  /** Calls of the writer, by id. */
  readonly sent: string[];
  /** What happens while a cancel waits for its turn. */
  onTurn: (id: string, signal: AbortSignal) => unknown;
  /** Called with each cancel that is about to be sent. */
  onSend: (id: string) => void;
  readonly clock: Clock & { step(ms: number): void };
  /** Milliseconds that have passed, whatever the clock says and however many processes there were. */
  passed(): number;
  readonly store: Store;
  journal(): Journal;
  autoCancel(): AccountAutoCancel;
  /** Everything that the last walk listed. */
  sightings(): readonly CallbackSighting[];
  /** Gives an order as another process would, and lets the agent see it. Returns `obeyed`, or why it was refused. */
  order(order: Order): Promise<string>;
  pause(): Promise<string>;
  resume(): Promise<string>;
  explain(id: string): Explanation | undefined;
  lines(): Promise<JournalEntry[]>;
  readonly log: ReturnType<typeof createTestLog>;
}
