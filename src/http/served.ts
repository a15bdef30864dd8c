import type { Clock } from '../kit/clock.ts';
import type { Format, Scope } from '../model/exposition.ts';
import type { CommandResult, OperatorCommand } from '../model/operator-command.ts';
import type { PeerKey } from './peer.ts';

/** An error in a configuration file. Lines and columns start at 1. */
export interface ReloadFault {
  readonly file: string;
  readonly line?: number | undefined;
  readonly column?: number | undefined;
  readonly message: string;
}

/** The changed keys of the configuration, or its errors. */
export type ReloadAnswer = { readonly changed: readonly string[] } | { readonly faults: readonly ReloadFault[] };

export interface Place {
  readonly id: string;
  readonly url: string;
}

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

/** Data of the routes of this module, from memory and the store. No request here queries the service. */
export interface HttpServed {
  readonly accounts: readonly string[];
  /** The exposition: everything, one account's families, or the agent's own. */
  exposition(scope: Scope, format: Format, gzip: boolean): Promise<{ contentType: string; body: Buffer }>;
  /** Proves requests of other agents of the store; undefined if they are refused like any other. */
  readonly peerKey?: PeerKey | undefined;
  /** Executes an operator's command like the command line. Rejects with StoreError, and with the reason of `signal`. */
  command(command: OperatorCommand, signal: AbortSignal): Promise<CommandResult>;
  /** Reads and applies the configuration, or returns its errors and keeps the current one. */
  reload(): Promise<ReloadAnswer>;
  /** Returns a function that returns whether a round has ended since its last call. */
  watch(): () => boolean;
  readonly replicas?: ServedReplicas | undefined;
  readonly clock: Clock;
}
