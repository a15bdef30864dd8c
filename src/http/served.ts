import type { Clock } from '../kit/clock.ts';
import type { Format, Scope } from '../model/exposition.ts';
import type { AccountStatus } from '../model/status.ts';
import type { AnyAccountView } from './api/account.ts';
import type { AgentView, Fault } from './api/agent.ts';
import type { AutoCancelView } from './api/auto-cancel.ts';
import type { HistoryQuery, HistoryView } from './api/history.ts';
import type { Overview, OverviewQuery } from './api/overview.ts';
import type { Alert } from './api/parts.ts';
import type { PeerKey } from './peer.ts';

/** Views of the pages and the API, as in the schemas of api/. Numbers are equal to the exposition at the same time. */
export interface Views {
  /** The state of all accounts. Yields to other work. */
  overview(query: OverviewQuery): Promise<Overview>;
  /** Undefined for an unknown name. */
  account(name: string): AnyAccountView | undefined;
  /** Recorded samples of an account; undefined for an unknown name. Rejects with StoreError. */
  history(name: string, query: HistoryQuery): Promise<HistoryView | undefined>;
  /** Auto-cancel of all accounts, or of one. */
  autoCancel(account: string | undefined): Promise<AutoCancelView>;
  /** The agent itself. */
  agent(): Promise<AgentView>;
}

/** Data of the routes, from memory and the store. No request here queries the service. */
export interface Served extends Views {
  readonly version: string;
  readonly externalUrl: string | null;
  readonly accounts: readonly string[];
  /** The exposition: everything, one account's families, or the agent's own. */
  exposition(scope: Scope, format: Format, gzip: boolean): Promise<{ contentType: string; body: Buffer }>;
  status(): readonly PlacedStatus[];
  /**
   * Explains decisions on a failure callback, by every account that tracks it, or by one configured account; JSON.
   * `no_agent`: another replica did not answer. `busy`: too many requests wait for other replicas. Rejects if `signal` is aborted.
   */
  explain(
    id: string,
    account: string | undefined,
    how: { readonly isSentOn: boolean; readonly signal: AbortSignal },
  ): Promise<readonly unknown[] | 'no_agent' | 'busy'>;
  /** Proves requests of other agents of the store; undefined if they are refused like any other. */
  readonly peerKey?: PeerKey | undefined;
  /** Lines of the journal from a time on (milliseconds since the Unix epoch), the oldest first; JSON. */
  journal(since: number): Promise<readonly unknown[]>;
  /** Alerts of the agent itself that are pending, firing, or were resolved lately. */
  alerts(): readonly ShownAlert[];
  /** Executes an operator's command like the command line. Rejects with StoreError, and with the reason of `signal`. */
  command(command: OperatorCommand, signal: AbortSignal): Promise<CommandAnswer>;
  /** Reads and applies the configuration, or returns its errors and keeps the current one. */
  reload(): Promise<ReloadAnswer>;
  /** Errors of the last reload; empty if it was accepted, or before the first reload. */
  reloadFaults(): readonly ReloadFault[];
  /** Returns a function that returns whether a round has ended since its last call. */
  watch(): () => boolean;
  /** Undefined if the store is not shared. */
  readonly replicas?: ServedReplicas | undefined;
  readonly clock: Clock;
}

/** Rounds of an account and the replica that holds it: see the schema. */
export interface PlacedStatus extends AccountStatus {
  readonly replica?: string;
  readonly asOf?: number;
}

/** A replica. */
export interface Place {
  readonly id: string;
  readonly url: string;
}

/** Replicas and their accounts. */
export interface ServedReplicas {
  readonly self: Place;
  /**
   * Reads the status rows of accounts that other replicas hold, if the last read is older than a few seconds; waits a second
   * at most. Synchronous results are as of the last read. Never rejects.
   */
  refresh(): Promise<void>;
  /** `isHere`: this process serves its metrics. `holder`: the replica that serves them; `last`: that one, or the last known. */
  placeOf(account: string): { readonly isHere: boolean; readonly holder: Place | undefined; readonly last: Place };
  /** Start of an outage of the database, milliseconds since the Unix epoch; undefined while it responds. */
  awaySince(): number | undefined;
}

/** `by`: the operator, for the journal. */
export type OperatorCommand =
  | { readonly kind: 'approve'; readonly action: string; readonly by: string }
  | { readonly kind: 'pause' | 'resume'; readonly reason: string; readonly by: string };

/** `result`: of the command, as JSON. `why`: for the operator. `waiting`: no agent has executed the order yet. */
export type CommandAnswer =
  | { readonly ok: true; readonly result?: unknown }
  | { readonly ok: false; readonly why: string }
  | 'waiting';

/** The changed keys of the configuration, or its errors. */
export type ReloadAnswer = { readonly changed: readonly string[] } | { readonly faults: readonly ReloadFault[] };

export type ReloadFault = Fault;
export type ShownAlert = Readonly<Alert>;
