import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { replaceFile } from '../kit/durable-file.ts';
import { createPrivateFolder } from '../kit/new-file.ts';
import type { Env } from '../kit/secret.ts';
import type { RecordedAccount } from '../model/account.ts';
import { readRow } from './errors.ts';
import { attachStore } from './open.ts';
import type { StoreOptions } from './options.ts';
import { NO_ACCOUNT, type Store } from './store.ts';

/** Minimum time between reads of an account's row (ms). */
const ROW_EVERY = 300_000;

/** Key of an agent-wide row, which `rotate-token` writes like a command. */
const rowKey = (account: string) => `account-record/${account}`;

/**
 * Returns the path of the file in which `rotate-token` records an account's plan limits, because the SQLite store is locked while
 * the agent runs. The file contains no secret.
 */
function accountFile({ path }: Pick<StoreOptions, 'path'>, account: string): string {
  return `${resolve(path)}.account-${account}.json`;
}

export function writeAccountFile(file: string, record: RecordedAccount): void {
  createPrivateFolder(dirname(file));
  // Readable by every user, because the agent may run as another user.
  replaceFile(file, `${JSON.stringify(record)}\n`, 0o644);
}

class AccountFileError extends Error {
  override readonly name = 'AccountFileError';
  readonly reason = 'store';
}

async function readAccountFile(file: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(file, 'utf8'));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    throw new AccountFileError(`${file} can't be read: ${code ?? 'not JSON'}`);
  }
}

async function readStored(store: Pick<Store, 'scan'>, account: string): Promise<unknown> {
  const key = rowKey(account);
  const text = (await store.scan(NO_ACCOUNT, key)).get(key);
  return text === undefined ? undefined : readRow(key, text);
}

/** Opens the record for `rotate-token`: a file or, with PostgreSQL, a row in the store. */
export function openAccountRecord(options: StoreOptions, account: string, env: Env) {
  if (options.kind !== 'postgres') {
    const path = accountFile(options, account);
    const write = async (record: RecordedAccount) => writeAccountFile(path, record);
    return { path, read: () => readAccountFile(path), write };
  }
  async function withStore<T>(work: (store: Store) => Promise<T>): Promise<T> {
    const store = await attachStore(options, { env });
    try {
      return await work(store);
    } finally {
      await store.close();
    }
  }
  return {
    path: 'the store',
    read: () => withStore(store => readStored(store, account)),
    write: (record: RecordedAccount) =>
      withStore(store => store.command([{ key: rowKey(account), value: JSON.stringify(record) }])),
  };
}

/** Returns a function that reads the record for the agent without validating it. A PostgreSQL row is cached for `ROW_EVERY`. */
export function accountRecordReader(
  options: Pick<StoreOptions, 'kind' | 'path'>,
  account: string,
  { store, clock }: { readonly store: Pick<Store, 'scan'>; readonly clock: { monotonic(): number } },
): () => Promise<unknown> {
  if (options.kind !== 'postgres') return () => readAccountFile(accountFile(options, account));
  let last: { readonly at: number; readonly record: unknown } | undefined;
  return async () => {
    const at = clock.monotonic();
    if (last && at - last.at < ROW_EVERY) return last.record;
    last = { at, record: await readStored(store, account) };
    return last.record;
  };
}
