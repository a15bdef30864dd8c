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

/** What the page and the API show, as its schemas in api/ say. Numbers are those of the exposition at the same moment. */
export interface Views {
  /** How all accounts stand. Other work gets its turn meanwhile. */
  overview(query: OverviewQuery): Promise<Overview>;
  /** All that is known of an account; undefined where none has that name. */
  account(name: string): AnyAccountView | undefined;
  /** What was recorded of an account; undefined where none has that name. Rejects with StoreError. */
  history(name: string, query: HistoryQuery): Promise<HistoryView | undefined>;
  /** Auto-cancel of all accounts, or of one. */
  autoCancel(account: string | undefined): Promise<AutoCancelView>;
  /** The agent itself. */
  agent(): Promise<AgentView>;
}

/** What the routes serve, as functions over what is in memory: no request here ever asks the service. */
export interface Served extends Views {
  readonly version: string;
  readonly externalUrl: string | null;
  readonly accounts: readonly string[];
  /** The exposition: everything, one account's families, or the agent's own. */
  exposition(scope: Scope, format: Format, gzip: boolean): Promise<{ contentType: string; body: Buffer }>;
  status(): readonly PlacedStatus[];
  /**
   * Why a failure callback is or is not acted upon, by every account that tracks it, or by one configured account; JSON.
   * `no_agent`: another replica did not answer. `busy`: too many requests wait for other replicas. Rejects when `signal` is aborted.
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
  /** Executes an operator's command as the command line does. Rejects with StoreError, and with the reason of `signal`. */
  command(command: OperatorCommand, signal: AbortSignal): Promise<CommandAnswer>;
  /** Reads the configuration again and goes over to it, or says why it can't be used and stays with the one in use. */
  reload(): Promise<ReloadAnswer>;
  /** Why the last reload was refused; empty when it was not, or there was none. */
  reloadFaults(): readonly ReloadFault[];
  /** Gives a function that tells whether a round has ended since it was asked last, or since now: numbers are others then. */
  watch(): () => boolean;
  /** Where replicas share the store. */
  readonly replicas?: ServedReplicas | undefined;
  readonly clock: Clock;
}

/** How the rounds of an account fare, by whichever replica holds it: see the schema. */
export interface PlacedStatus extends AccountStatus {
  readonly replica?: string;
  readonly asOf?: number;
}

/** Another process that serves the same accounts, by its id and its URL. */
export interface Place {
  readonly id: string;
  readonly url: string;
}

/** Who serves what, where replicas share the store. */
export interface ServedReplicas {
  readonly self: Place;
  /**
   * Reads the status rows of accounts that other replicas hold, if the last read is older than a few seconds; waits a second
   * at most. Everything that is served without a promise is as of the last read. Never rejects.
   */
  refresh(): Promise<void>;
  /** `isHere`: this process serves its metrics. `holder`: the replica that does; `last`: or did last, as far as is known. */
  placeOf(account: string): { readonly isHere: boolean; readonly holder: Place | undefined; readonly last: Place };
  /** Since when the database does not answer, milliseconds since the Unix epoch; undefined while it does. */
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

/** What a reload has changed, by the words of the configuration; or why the configuration can't be used, with places in it. */
export type ReloadAnswer = { readonly changed: readonly string[] } | { readonly faults: readonly ReloadFault[] };

export type ReloadFault = Fault;
export type ShownAlert = Readonly<Alert>;
