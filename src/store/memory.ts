import type { Change } from '../model/change.ts';
import { checkChanges, checkText } from './changes.ts';
import { StoreError } from './errors.ts';
import { type Guard, NO_ACCOUNT, type Store } from './store.ts';

export function createMemoryStore(): Store {
  const accounts = new Map<string, Map<string, string>>();
  let closed = false;
  const assertOpen = () => {
    if (closed) throw new StoreError('closed', 'the store');
  };
  function rowsOf(account: string, prefix: string): [string, string][] {
    assertOpen();
    checkText(prefix, 'a prefix');
    return [...(accounts.get(account) ?? [])].filter(([key]) => key.startsWith(prefix));
  }
  function rowsIn(account: string): Map<string, string> {
    const rows = accounts.get(account) ?? new Map<string, string>();
    accounts.set(account, rows);
    return rows;
  }
  async function commit(account: string, changes: readonly Change[], guard?: Guard): Promise<void> {
    assertOpen();
    checkChanges(account, changes, guard);
    if (guard && accounts.get(guard.account)?.get(guard.key) !== guard.value) {
      throw new StoreError('guard_failed', 'the row of the guard');
    }
    const rows = rowsIn(account);
    for (const { key, value } of changes) {
      if (value === null) rows.delete(key);
      else rows.set(key, value);
    }
  }
  return {
    async scan(account, prefix) {
      return new Map(rowsOf(account, prefix));
    },
    async sizes(account, prefix) {
      return new Map(rowsOf(account, prefix).map(([key, value]) => [key, Buffer.byteLength(value)]));
    },
    async valuesOf(key) {
      assertOpen();
      checkText(key, 'a key');
      return new Map(
        [...accounts].flatMap(([account, rows]) => {
          const value = rows.get(key);
          return value === undefined ? [] : [[account, value] as const];
        }),
      );
    },
    commit,
    command: (changes, guard) => commit(NO_ACCOUNT, changes, guard),
    async create(key, value) {
      assertOpen();
      checkChanges(NO_ACCOUNT, [{ key, value }]);
      const rows = rowsIn(NO_ACCOUNT);
      if (!rows.has(key)) rows.set(key, value);
    },
    async close() {
      closed = true;
    },
  };
}
