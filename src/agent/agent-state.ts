import type { AutoCancel } from '../auto-cancel/accounts.ts';
import type { LoadedConfig } from '../config/load.ts';
import type { Source } from '../metrics/family.ts';
import { failedAccount, type ShownAccount } from './failed-account.ts';
import type { Failure } from './failures.ts';
import type { Base } from './parts.ts';
import type { Prepared } from './prepared.ts';
import type { RunningAccount } from './running-account.ts';

/** What this process shows at one moment. Another object means that accounts or the configuration have changed. */
export interface AgentState {
  readonly loaded: LoadedConfig;
  /** Accounts of this process, in the order of the configuration. */
  readonly accounts: readonly ShownAccount[];
  readonly running: readonly RunningAccount[];
  /** Sources of accounts, alerts and exports, and the same without the families that accounts exclude. */
  readonly sources: readonly Source[];
  readonly shown: readonly Source[];
  /** Undefined while auto-cancel is off. */
  readonly autoCancel: AutoCancel | undefined;
}

export interface StateDeps extends Pick<Base, 'leases' | 'process' | 'holding' | 'clock'> {
  readonly prepared: Prepared;
  readonly running: ReadonlyMap<string, RunningAccount>;
  /** Closed accounts that are about to be opened again: their facts are still shown. */
  readonly closed: ReadonlyMap<string, RunningAccount>;
  failureOf(account: string): Failure | undefined;
  /** Sources of alerts of an account, and of exports and notifications. */
  alertsOf(account: string): Source | undefined;
  readonly others: readonly Source[];
  selectShown(sources: readonly Source[], accounts: LoadedConfig['config']['accounts']): readonly Source[];
  readonly autoCancel: AutoCancel | undefined;
}

export function createAgentState({ prepared, running, closed, ...deps }: StateDeps): AgentState {
  const { loaded, desired } = prepared;
  const { leases, process, holding, clock } = deps;
  const placed = [...desired.values()].flatMap(({ settings }) => {
    const { name } = settings;
    const open = running.get(name);
    if (open) return open;
    const last = closed.get(name);
    const failure = deps.failureOf(name);
    return failure ? [failedAccount(settings, failure, last?.account, clock)] : (last ?? []);
  });
  const isHeld = (name: string) => running.has(name) && (holding?.isCurrent(name) ?? true);
  const inOrder = [...desired.keys()].flatMap(name => running.get(name) ?? []);
  const sources = [
    ...placed.flatMap(each => each.sources),
    ...placed.flatMap(({ account: { name } }) => deps.alertsOf(name) ?? []),
    ...deps.others,
    process.source,
    ...(leases ? [leases.sourceOf([...desired.keys()], isHeld)] : []),
  ];
  return {
    loaded,
    accounts: placed.map(({ account }) => account),
    running: inOrder,
    sources,
    shown: deps.selectShown(sources, loaded.config.accounts),
    autoCancel: deps.autoCancel,
  };
}
