import type { Clock } from '../kit/clock.ts';
import type { Format, Scope } from '../model/exposition.ts';
import type { CommandResult, OperatorCommand } from '../model/operator-command.ts';
import type { PeerKey } from './peer.ts';

/** An error in a configuration file. Lines and columns start at 1. */
export interface ReloadError {
  readonly file: string;
  readonly line?: number | undefined;
  readonly column?: number | undefined;
  readonly message: string;
}

/** Changed keys of the configuration, or its errors. */
export type ReloadResult = { readonly changed: readonly string[] } | { readonly faults: readonly ReloadError[] };

/** The processes that share the store. */
export interface ProcessGroup {
  /** Whether this process leads and serves everything itself. Otherwise it is a standby. */
  isLeading(): boolean;
  /** Returns the leader. `url`: where standbys and Prometheus reach it; `age`: time since it renewed its lease (ms). */
  leader(): { readonly id: string; readonly url: string; readonly since: number; readonly age: number } | undefined;
  /** Returns the start of a database outage (ms since the Unix epoch); undefined while the database responds. */
  unavailableSince(): number | undefined;
}

/** Data for the routes, from memory and the store. Serving a request never queries the service. */
export interface HttpServed {
  readonly accounts: readonly string[];
  /** Renders the metrics of everything, of one account, or of the agent. */
  exposition(scope: Scope, format: Format, gzip: boolean): Promise<{ contentType: string; body: Buffer }>;
  /**
   * Key that verifies requests from agents with the same store. If undefined, these agents must authenticate like other
   * clients.
   */
  readonly peerKey?: PeerKey | undefined;
  /** Executes an operator's command. Rejects with StoreError, or with the reason of `signal`. */
  command(command: OperatorCommand, signal: AbortSignal): Promise<CommandResult>;
  /** Reloads the configuration. If the new one is invalid, keeps the current one and returns the errors. */
  reload(): Promise<ReloadResult>;
  /** Undefined if the store belongs to this process alone. */
  readonly group?: ProcessGroup | undefined;
  readonly clock: Clock;
}
