import type { HttpServed, ReloadError } from '../http/served.ts';
import type { AccountStatus } from '../model/status.ts';
import type { ShownAlert } from '../rules/alerting.ts';
import type { AccountView } from './api/account.ts';
import type { AutoCancelView } from './api/auto-cancel.ts';
import type { HistoryQuery, HistoryView } from './api/history.ts';
import type { Overview, OverviewQuery } from './api/overview.ts';
import type { Report } from './api/report.ts';
import type { Lookups } from './lookups.ts';

/** Data of the current configuration. Only `lookups` query the service. Numbers in a view equal the metrics at the same time. */
export interface Views {
  readonly accounts: readonly string[];
  readonly externalUrl: string | null;
  overview(query: OverviewQuery): Promise<Overview>;
  report(): Promise<Report>;
  account(name: string): AccountView | undefined;
  /** Returns recorded samples of an account; undefined for an unknown name. Rejects with StoreError. */
  history(name: string, query: HistoryQuery): Promise<HistoryView | undefined>;
  autoCancel(account: string | undefined): Promise<AutoCancelView>;
  readonly lookups: Lookups;
  status(): readonly AccountStatus[];
  /** Explains decisions on a failure callback, as JSON, for all accounts that track it or for one configured account. */
  explain(id: string, account: string | undefined): Promise<readonly unknown[]>;
  /** Returns lines of the journal since a time (ms since the Unix epoch), oldest first, as JSON. */
  journal(since: number): Promise<readonly unknown[]>;
  /** Returns pending, firing and recently resolved alerts about all accounts and the agent. */
  alerts(): readonly ShownAlert[];
}

/** Data for the routes. */
export interface Served extends HttpServed {
  readonly version: string;
  views(): Views;
  /** Returns errors of the last reload; empty if it was accepted, or before the first reload. */
  reloadErrors(): readonly ReloadError[];
}
