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

/** The changed keys of the configuration, or its errors. */
export type ReloadResult = { readonly changed: readonly string[] } | { readonly faults: readonly ReloadError[] };

export interface ReplicaAddress {
  readonly id: string;
  readonly url: string;
}

export interface ServedReplicas {
  readonly self: ReplicaAddress;
  /**
   * Reads the status rows of accounts that other replicas hold, if the last read is older than a few seconds; waits a second
   * at most. Synchronous results are as of the last read. Never rejects.
   */
  refresh(): Promise<void>;
  /** Returns where an account's metrics are served. `isHere`: whether by this process. `last`: the last known holder. */
  placeOf(account: string): {
    readonly isHere: boolean;
    readonly holder: ReplicaAddress | undefined;
    readonly last: ReplicaAddress;
  };
  /** Returns the start of an outage of the database (ms since the Unix epoch); undefined while the database responds. */
  unavailableSince(): number | undefined;
}

/** Data of the routes of this module, from memory and the store. No request here queries the service. */
export interface HttpServed {
  readonly accounts: readonly string[];
  /** Renders the exposition: everything, one account's families, or the agent's own. */
  exposition(scope: Scope, format: Format, gzip: boolean): Promise<{ contentType: string; body: Buffer }>;
  /** Verifies requests of agents that share the store; undefined if such requests must authenticate like all others. */
  readonly peerKey?: PeerKey | undefined;
  /** Executes an operator's command as the CLI does. Rejects with StoreError, or with the reason of `signal`. */
  command(command: OperatorCommand, signal: AbortSignal): Promise<CommandResult>;
  /** Reads and applies the configuration, or returns its errors and keeps the current one. */
  reload(): Promise<ReloadResult>;
  /** Returns a function that returns whether a round has ended since its last call. */
  watch(): () => boolean;
  readonly replicas?: ServedReplicas | undefined;
  readonly clock: Clock;
}
