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

/** The accounts of one configuration. */
export interface Accounts {
  readonly all: readonly Account[];
  readonly infoFamily: Family;
  /** Connections that they use. */
  readonly dispatchers: readonly Dispatcher[];
  /** What the next ones go on with. */
  readonly kept: Reuse<Opening>;
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

interface Opening {
  readonly account: Promise<Account>;
  readonly dispatcher: Dispatcher;
}

export type AccountsDeps = Omit<AccountDeps, 'accountInfo' | 'dispatchers'> & { readonly dispatchers: Dispatchers };

/** All that an account depends on, secrets included. */
function identityOfAccount(settings: AccountSettings, { config, env }: Pick<AccountsDeps, 'config' | 'env'>): string {
  const { name } = settings;
  const lifecycles = hasLifecycles(config, env) && config.tracing.lifecycle;
  const schedules = schedulesOf(config.schedules, name);
  return identityOf([settings, config.staleness, schedules, rulesOf(config, name), lifecycles]);
}

/** The family of what is known of each account: the same object where it says the same. */
function infoFamilyOf({ accounts }: Config, before: Accounts | undefined): Family {
  const family = accountInfoFamily(accounts.map(({ labels }) => labels));
  const known = before?.infoFamily;
  return known && identityOf(known) === identityOf(family) ? known : family;
}

function changesOf(all: readonly Account[], last: readonly Account[], stopped: readonly Account[]): AccountChanges {
  const named = (accounts: readonly Account[]) => new Map(accounts.map(account => [account.name, account]));
  return {
    changes: listChanges('accounts', named(last), named(all)),
    fresh: all.filter(account => !last.includes(account)),
    old: last.filter(account => !all.includes(account)),
    undo() {
      for (const account of stopped) account.resume();
    },
  };
}

/** Always the same connections. By itself, so that it holds on to nothing else. */
const only = (dispatcher: Dispatcher) => ({ for: () => dispatcher });

/**
 * Opens the accounts of a configuration. `before`: those that run; one that has not changed stays as it is, and one that has is
 * stopped and saved before the next of its name is opened from the store. Rejects, when all go on as before, with StoreError, or
 * an Error where a secret or a file is missing.
 */
export async function openAccounts(
  deps: AccountsDeps,
  before?: Accounts,
): Promise<{ readonly accounts: Accounts; readonly change: AccountChanges }> {
  const { config, dispatchers } = deps;
  const infoFamily = infoFamilyOf(config, before);
  const kept = createReuse(before?.kept);
  const stopped: Account[] = [];

  async function open(settings: AccountSettings, dispatcher: Dispatcher): Promise<Account> {
    const last = await before?.kept.made.get(settings.name)?.value.account;
    if (last) {
      stopped.push(last);
      await last.close();
    }
    return openAccount(settings, { ...deps, accountInfo: infoFamily, dispatchers: only(dispatcher) }, last);
  }

  // All are found first: a missing file shall stop none.
  const ways = config.accounts.map(({ upstream }) => dispatchers.for(upstream));
  const opening = config.accounts.map((settings, index) => {
    const dispatcher = ways[index] as Dispatcher;
    const make = () => ({ account: open(settings, dispatcher), dispatcher });
    return kept.of(settings.name, [identityOfAccount(settings, deps), dispatcher], make);
  });
  const settled = await Promise.allSettled(opening.map(({ account }) => account));
  const all = settled.flatMap(each => (each.status === 'fulfilled' ? [each.value] : []));
  const change = changesOf(all, before?.all ?? [], stopped);
  const failed = settled.find(each => each.status === 'rejected');
  if (failed) {
    change.undo();
    throw failed.reason;
  }
  kept.settle();
  return { accounts: { all, infoFamily, dispatchers: opening.map(({ dispatcher }) => dispatcher), kept }, change };
}
