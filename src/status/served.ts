import type { HttpServed, ReloadFault } from '../http/served.ts';
import type { AccountStatus } from '../model/status.ts';
import type { AnyAccountView } from './api/account.ts';
import type { AgentView } from './api/agent.ts';
import type { AutoCancelView } from './api/auto-cancel.ts';
import type { HistoryQuery, HistoryView } from './api/history.ts';
import type { Overview, OverviewQuery } from './api/overview.ts';
import type { Alert } from './api/parts.ts';

/**
 * Data of the routes, from memory and the store. No request here queries the service. Views are as in the schemas of api/. Their
 * numbers are equal to the exposition at the same time.
 */
export interface Served extends HttpServed {
  readonly version: string;
  readonly externalUrl: string | null;
  overview(query: OverviewQuery): Promise<Overview>;
  account(name: string): AnyAccountView | undefined;
  /** Recorded samples of an account; undefined for an unknown name. Rejects with StoreError. */
  history(name: string, query: HistoryQuery): Promise<HistoryView | undefined>;
  autoCancel(account: string | undefined): Promise<AutoCancelView>;
  agent(): Promise<AgentView>;
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
  /** Lines of the journal from a time on (milliseconds since the Unix epoch), the oldest first; JSON. */
  journal(since: number): Promise<readonly unknown[]>;
  /** Alerts of the agent itself that are pending, firing, or were resolved lately. */
  alerts(): readonly ShownAlert[];
  /** Errors of the last reload; empty if it was accepted, or before the first reload. */
  reloadFaults(): readonly ReloadFault[];
}

/** Rounds of an account and the replica that holds it: see the schema. */
export interface PlacedStatus extends AccountStatus {
  readonly replica?: string;
  readonly asOf?: number;
}

export type ShownAlert = Readonly<Alert>;
