import type { Env } from '../kit/secret.ts';
import type { RecordedAccount } from '../model/account.ts';
import { readRow } from './errors.ts';
import { attachStore } from './open.ts';
import type { StoreOptions } from './options.ts';
import { NO_ACCOUNT, type Store } from './store.ts';

/** Minimum time between reads of an account's row in PostgreSQL (ms). */
const ROW_EVERY = 300_000;

/** Key of the agent-wide row with an account's plan limits. `rotate-token` writes the row by `Store.command`. */
const rowKey = (account: string) => `account-record/${account}`;

async function readStored(store: Pick<Store, 'scan'>, account: string): Promise<unknown> {
  const key = rowKey(account);
  const text = (await store.scan(NO_ACCOUNT, key)).get(key);
  return text === undefined ? undefined : readRow(key, text);
}

/** Opens the record for `rotate-token`. Its functions reject with StoreError. */
export function openAccountRecord(options: StoreOptions, account: string, env: Env) {
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
  { kind }: Pick<StoreOptions, 'kind'>,
  account: string,
  { store, clock }: { readonly store: Pick<Store, 'scan'>; readonly clock: { monotonic(): number } },
): () => Promise<unknown> {
  let last: { readonly at: number; readonly record: unknown } | undefined;
  return async () => {
    const at = clock.monotonic();
    if (kind === 'postgres' && last && at - last.at < ROW_EVERY) return last.record;
    last = { at, record: await readStored(store, account) };
    return last.record;
  };
}
