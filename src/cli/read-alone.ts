import type { Command } from 'commander';
import type { Account } from '../agent/account.ts';
import { openAccounts, type PartsDeps } from '../agent/base.ts';
import { type LoadedConfig, loadConfig } from '../config/load.ts';
import type { AccountSettings } from '../config/schema.ts';
import { systemClock } from '../kit/clock.ts';
import { type Closing, withClosing } from '../kit/closing.ts';
import { printable, someOf } from '../kit/text.ts';
import { durationText } from '../rules/checks/words.ts';
import { createMemoryStore } from '../store/memory.ts';
import { attachStore } from '../store/open.ts';
import type { Store } from '../store/store.ts';

const SPENT = 'budget/spent';

/** Opens the agent's store; undefined if it is missing or in memory. */
async function storeOf({ config }: LoadedConfig, env: PartsDeps['env']): Promise<Store | undefined> {
  try {
    return await attachStore(config.store, { env });
  } catch (error) {
    const reason = error instanceof Error && 'reason' in error ? error.reason : undefined;
    if (reason !== 'missing' && reason !== 'unshared') throw error;
    return undefined;
  }
}

/** Creates an in-memory store with a copy of the agent's budget usage. */
async function ownStore(accounts: readonly AccountSettings[], store: Store | undefined): Promise<Store> {
  const own = createMemoryStore();
  for (const { name } of accounts) {
    const spent = (await store?.scan(name, SPENT))?.get(SPENT);
    if (spent !== undefined) await own.commit(name, [{ key: SPENT, value: spent }]);
  }
  return own;
}

/** Environment, clock and randomness of a command. */
export const realDeps = { env: process.env, clock: systemClock, random: Math.random };

/** Opens all accounts with an in-memory store, because a running agent may have locked the configured one. */
export const openInMemory = (loaded: LoadedConfig, deps: PartsDeps, closing: Closing) =>
  openAccounts(
    { ...loaded, config: { ...loaded.config, store: { ...loaded.config.store, kind: 'memory' } } },
    deps,
    closing,
  );

/**
 * Opens an in-memory store with the remaining daily budget of the agent. `onStoreError`: called instead of rejecting if the
 * agent's store is unavailable.
 */
export async function openOwnStore(
  loaded: LoadedConfig,
  { env, clock, random }: Pick<PartsDeps, 'env' | 'clock' | 'random'>,
  closing: Closing,
  onStoreError?: (error: unknown) => undefined,
) {
  const store = await storeOf(loaded, env).catch(error => {
    if (!onStoreError) throw error;
    return onStoreError(error);
  });
  if (store) closing.add('store', () => store.close());
  const own = await ownStore(loaded.config.accounts, store);
  return { store, parts: { env, clock, random, openStore: async () => own } };
}

/** Replaces the progress line on a terminal. An empty text removes it. */
export function showProgress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\u001b[K${text}`);
}

/** Prints a line on standard error, replacing a progress line. */
export function report(line: string): void {
  showProgress('');
  process.stderr.write(`${printable(line)}\n`);
}

/** Minimum duration of a reported wait for the budget (ms). */
const NOTICEABLE = 2000;

/** Until `signal` is aborted, reports requests that wait for the budget. */
async function reportWaits(accounts: readonly Account[], signal: AbortSignal): Promise<void> {
  const reported = new Map<string, 'slow' | 'waiting'>();
  for (;;) {
    await systemClock.sleep(500, signal);
    for (const { name, budget, meter } of accounts) {
      const wait = budget.wait();
      const state = wait >= NOTICEABLE ? 'waiting' : 'slow';
      if (reported.get(name) === state || (state === 'slow' && meter.budgetWait.total() * 1000 < NOTICEABLE)) continue;
      const isFirst = !reported.has(name);
      reported.set(name, state);
      if (state === 'waiting') report(`${name}: waiting ${durationText(wait / 1000)} for the request budget`);
      else if (isFirst) report(`${name}: the request budget slows this down`);
    }
  }
}

export interface SelectionOptions {
  readonly config: string;
  readonly account?: readonly string[];
}

/** Loads a configuration with the named accounts, or with all. Disables the log, because the command reports failures itself. */
export function loadAccounts(command: Command, { config: file, account: names }: SelectionOptions): LoadedConfig {
  const loaded = loadConfig(file, process.env);
  const { accounts, log } = loaded.config;
  const unknown = names?.find(name => !accounts.some(each => each.name === name));
  if (unknown !== undefined)
    command.error(`error: ${file} has no account ${unknown}; it has ${someOf(accounts.map(({ name }) => name))}`);
  const selected = accounts.filter(({ name }) => names?.includes(name) ?? true);
  return { ...loaded, config: { ...loaded.config, accounts: selected, log: { ...log, level: 'silent' } } };
}

/** Reads the accounts in order and reports failures on standard error. Returns the failed accounts. Rejects with the signal's reason. */
export function readAccounts(
  loaded: LoadedConfig,
  signal: AbortSignal,
  read: (account: Account, settings: AccountSettings) => Promise<void>,
): Promise<readonly string[]> {
  return withClosing(async closing => {
    const { parts } = await openOwnStore(loaded, realDeps, closing, error => {
      report(`The agent's requests of today are unknown: ${error instanceof Error ? error.message : error}`);
      return undefined;
    });
    const accounts = await openInMemory(loaded, parts, closing);
    const done = new AbortController();
    void reportWaits(accounts, done.signal).catch(() => undefined);
    closing.add('report', () => done.abort());
    const failed: string[] = [];
    for (const [index, settings] of loaded.config.accounts.entries()) {
      const account = accounts[index] as Account;
      try {
        await read(account, settings);
      } catch (error) {
        if (signal.aborted) throw signal.reason;
        failed.push(settings.name);
        report(`${settings.name}: ${error instanceof Error ? error.message : error}`);
      }
    }
    return failed;
  });
}
