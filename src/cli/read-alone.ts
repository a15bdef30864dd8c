import type { Command } from 'commander';
import type { Account } from '../agent/account.ts';
import { openAccounts, type PartsDeps } from '../agent/base.ts';
import { type LoadedConfig, loadConfig } from '../config/load.ts';
import type { AccountSettings } from '../config/schema.ts';
import { systemClock } from '../kit/clock.ts';
import { type Closing, withClosing } from '../kit/closing.ts';
import { printable, someOf } from '../kit/text.ts';

export const realDeps = { env: process.env, clock: systemClock, random: Math.random };

/** Opens all accounts with an in-memory store, because a running agent may have locked the configured one. */
export const openInMemory = (loaded: LoadedConfig, deps: PartsDeps, closing: Closing) =>
  openAccounts(
    { ...loaded, config: { ...loaded.config, store: { ...loaded.config.store, kind: 'memory' } } },
    deps,
    closing,
  );

export const report = (line: string): void => void process.stderr.write(`${printable(line)}\n`);

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
    const accounts = await openInMemory(loaded, realDeps, closing);
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
