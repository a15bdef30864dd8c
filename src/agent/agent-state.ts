import type { AutoCancel } from '../auto-cancel/accounts.ts';
import type { Source } from '../metrics/family.ts';
import type { createShownSources } from '../metrics/shown-sources.ts';
import { failedAccount, type ShownAccount } from '../status/failed-account.ts';
import type { AgentBase } from './base.ts';
import type { Prepared } from './prepared.ts';
import type { RunningAccount } from './running-account.ts';
import type { Slot } from './slot.ts';

/** Snapshot of the configuration and the accounts of this process. Replaced when either changes. */
export type AgentState = ReturnType<typeof createAgentState>;

interface StateDeps extends Pick<AgentBase, 'leaseMeter' | 'process' | 'leadership'> {
  readonly prepared: Prepared;
  slotOf(account: string): Pick<Slot<RunningAccount>, 'tenant' | 'last' | 'failure'> | undefined;
  alertsOf(account: string): readonly Source[];
  readonly others: readonly Source[];
  readonly selectShown: ReturnType<typeof createShownSources>;
  readonly autoCancel: AutoCancel | undefined;
}

export function createAgentState({ prepared, slotOf, autoCancel, ...deps }: StateDeps) {
  const { loaded, desired } = prepared;
  const { leaseMeter, process, leadership } = deps;
  const placed = [...desired.values()].flatMap(
    ({ settings }): readonly { readonly account: ShownAccount; readonly sources: readonly Source[] }[] => {
      const { tenant, last, failure } = slotOf(settings.name) ?? {};
      if (tenant) return [tenant];
      return failure ? [failedAccount(settings, failure, last?.account)] : last ? [last] : [];
    },
  );
  const sources = [
    ...placed.flatMap(each => each.sources),
    ...placed.flatMap(({ account: { name } }) => deps.alertsOf(name)),
    ...deps.others,
    process.source,
    ...(leaseMeter && leadership ? [leaseMeter.sourceOf(loaded.config.store.schema, leadership.isCurrent)] : []),
  ];
  return {
    loaded,
    /** In the order of the configuration. */
    accounts: placed.map(({ account }) => account),
    running: [...desired.keys()].flatMap(name => slotOf(name)?.tenant ?? []),
    sources,
    /** `sources` without the excluded families. */
    shown: deps.selectShown(sources, loaded.config.accounts),
    autoCancel,
  };
}
