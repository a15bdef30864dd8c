import type { Dispatcher } from 'undici';
import { schedulesOf } from '../collectors/index.ts';
import type { Config } from '../config/schema.ts';
import { createReuse, type Reuse } from '../kit/reuse.ts';
import type { Family } from '../metrics/family.ts';
import { accountInfoFamily } from '../metrics/own.ts';
import { type Account, type AccountDeps, openAccount } from './account.ts';
import type { AccountSettings } from './account-client.ts';
import { rulesOf } from './callbacks.ts';
import { listChanges } from './changes.ts';
import type { Dispatchers } from './dispatchers.ts';
import { identityOf } from './identity.ts';
import { hasLifecycles } from './traces.ts';

/** The accounts of one configuration, as far as this replica holds them. */
export interface Accounts {
  readonly all: readonly Account[];
  /** Of all that are configured. */
  readonly infoFamily: Family;
  /** Connections that those use. */
  readonly dispatchers: readonly Dispatcher[];
  /** What the next ones go on with. */
  readonly kept: { readonly config: Config; readonly ways: Reuse<Way>; readonly opened: Reuse<Promise<Account>> };
}

/** How accounts differ from those before. */
export interface AccountChanges {
  /** In words. */
  readonly changes: readonly string[];
  /** Those that were not there before, or under other settings. */
  readonly fresh: readonly Account[];
  /** Those of the ones before that are not among them, stopped where another is in their place. */
  readonly old: readonly Account[];
  /** Lets those that were stopped go on instead. */
  undo(): void;
}

/** How an account is asked: another object where anything of its settings differs. */
interface Way {
  readonly dispatcher: Dispatcher;
}

export type AccountsDeps = Omit<AccountDeps, 'accountInfo' | 'dispatchers'> & { readonly dispatchers: Dispatchers };

/** All that an account depends on, secrets included. Which of its families are exposed makes no other account of it. */
function identityOfAccount(settings: AccountSettings, { config, env }: Pick<AccountsDeps, 'config' | 'env'>): string {
  const { name } = settings;
  const { families: _, ...collect } = settings.collect;
  const lifecycles = hasLifecycles(config, env) && config.tracing.lifecycle;
  const schedules = schedulesOf(config.schedules, name);
  return identityOf([
    { ...settings, collect },
    config.staleness,
    schedules,
    rulesOf(config, name),
    lifecycles,
    config.log.deadLetters,
  ]);
}

/** The family of what is known of each account: the same object where it says the same. */
function infoFamilyOf({ accounts }: Config, before: Accounts | undefined): Family {
  const family = accountInfoFamily(accounts.map(({ labels }) => labels));
  const known = before?.infoFamily;
  return known && identityOf(known) === identityOf(family) ? known : family;
}

/** Every account that is configured: a missing file is found before any is stopped. */
function waysOf(deps: AccountsDeps, before: Accounts | undefined): Reuse<Way> {
  const { config, dispatchers } = deps;
  if (before?.kept.config === config) return before.kept.ways;
  const ways = createReuse(before?.kept.ways);
  for (const settings of config.accounts) {
    const dispatcher = dispatchers.for(settings.upstream);
    ways.of(settings.name, [identityOfAccount(settings, deps), dispatcher], () => ({ dispatcher }));
  }
  ways.settle();
  return ways;
}

const valuesOf = <T>({ made }: Reuse<T>): ReadonlyMap<string, T> =>
  new Map([...made].map(([name, { value }]) => [name, value]));

/** By what is configured: an account that another replica has now is not gone. */
function changesOf(ways: Reuse<Way>, before: Reuse<Way> | undefined): readonly string[] {
  return ways === before ? [] : listChanges('accounts', before ? valuesOf(before) : new Map(), valuesOf(ways));
}

/** Always the same connections. By itself, so that it holds on to nothing else. */
const only = (dispatcher: Dispatcher) => ({ for: () => dispatcher });

/**
 * Opens the accounts of a configuration, those of them that `isHeld` says. `before`: those that run; one that has not changed
 * stays as it is, and one that has is stopped and saved before the next of its name is opened from the store. Rejects, when all
 * go on as before, with StoreError, or an Error where a secret or a file is missing.
 */
export async function openAccounts(
  deps: AccountsDeps,
  isHeld: (account: string) => boolean,
  before?: Accounts,
): Promise<{ readonly accounts: Accounts; readonly change: AccountChanges }> {
  const { config } = deps;
  const infoFamily = infoFamilyOf(config, before);
  const ways = waysOf(deps, before);
  const opened = createReuse(before?.kept.opened);
  const stopped: Account[] = [];

  async function open(settings: AccountSettings, { dispatcher }: Way): Promise<Account> {
    const last = await before?.kept.opened.made.get(settings.name)?.value;
    if (last) {
      stopped.push(last);
      await last.close();
    }
    return openAccount(settings, { ...deps, accountInfo: infoFamily, dispatchers: only(dispatcher) }, last);
  }

  const opening = config.accounts.flatMap(settings => {
    const way = ways.made.get(settings.name)?.value;
    return way && isHeld(settings.name) ? [opened.of(settings.name, [way], () => open(settings, way))] : [];
  });
  const settled = await Promise.allSettled(opening);
  const all = settled.flatMap(each => (each.status === 'fulfilled' ? [each.value] : []));
  const last = before?.all ?? [];
  const [lastOnes, allOnes] = [new Set(last), new Set(all)];
  const change: AccountChanges = {
    changes: changesOf(ways, before?.kept.ways),
    fresh: all.filter(account => !lastOnes.has(account)),
    old: last.filter(account => !allOnes.has(account)),
    undo() {
      for (const account of stopped) account.resume();
    },
  };
  const failed = settled.find(each => each.status === 'rejected');
  if (failed) {
    change.undo();
    throw failed.reason;
  }
  opened.settle();
  const dispatchers = [...valuesOf(ways).values()].map(({ dispatcher }) => dispatcher);
  return { accounts: { all, infoFamily, dispatchers, kept: { config, ways, opened } }, change };
}
