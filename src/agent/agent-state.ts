import type { AutoCancel } from '../auto-cancel/accounts.ts';
import type { Source } from '../metrics/family.ts';
import type { createShownSources } from '../metrics/shown-sources.ts';
import { failedAccount, type ShownAccount } from '../status/failed-account.ts';
import type { AccountFailure } from './failures.ts';
import type { AgentBase } from './parts.ts';
import type { Prepared } from './prepared.ts';
import type { RunningAccount } from './running-account.ts';

/** Snapshot of the configuration and the accounts of this process. Replaced when either changes. */
export type AgentState = ReturnType<typeof createAgentState>;

interface StateDeps extends Pick<AgentBase, 'leases' | 'process' | 'holding'> {
  readonly prepared: Prepared;
  readonly running: ReadonlyMap<string, RunningAccount>;
  readonly closed: ReadonlyMap<string, RunningAccount>;
  failureOf(account: string): AccountFailure | undefined;
  alertsOf(account: string): Source | undefined;
  readonly others: readonly Source[];
  readonly selectShown: ReturnType<typeof createShownSources>;
  readonly autoCancel: AutoCancel | undefined;
}

export function createAgentState({ prepared, running, closed, autoCancel, ...deps }: StateDeps) {
  const { loaded, desired } = prepared;
  const { leases, process, holding } = deps;
  const placed = [...desired.values()].flatMap(
    ({ settings }): readonly { readonly account: ShownAccount; readonly sources: readonly Source[] }[] => {
      const { name } = settings;
      const open = running.get(name);
      if (open) return [open];
      const last = closed.get(name);
      const failure = deps.failureOf(name);
      return failure ? [failedAccount(settings, failure, last?.account)] : last ? [last] : [];
    },
  );
  const isHeld = (name: string) => running.has(name) && (holding?.isCurrent(name) ?? true);
  const sources = [
    ...placed.flatMap(each => each.sources),
    ...placed.flatMap(({ account: { name } }) => deps.alertsOf(name) ?? []),
    ...deps.others,
    process.source,
    ...(leases ? [leases.sourceOf([...desired.keys()], isHeld)] : []),
  ];
  return {
    loaded,
    /** In the order of the configuration. */
    accounts: placed.map(({ account }) => account),
    running: [...desired.keys()].flatMap(name => running.get(name) ?? []),
    sources,
    /** `sources` without the excluded families. */
    shown: deps.selectShown(sources, loaded.config.accounts),
    autoCancel,
  };
}
