import type { Store } from './store.ts';

/** A store that lasts as long as the process. */
export function createMemoryStore(): Store {
  const accounts = new Map<string, Map<string, string>>();
  let closed = false;
  const rowsOf = (account: string) => {
    if (closed) throw new Error('the store is closed');
    let rows = accounts.get(account);
    if (!rows) accounts.set(account, (rows = new Map()));
    return rows;
  };
  return {
    async scan(account, prefix) {
      return new Map([...rowsOf(account)].filter(([key]) => key.startsWith(prefix)));
    },
    async commit(account, changes) {
      const rows = rowsOf(account);
      for (const { key, value } of changes) {
        if (value === null) rows.delete(key);
        else rows.set(key, value);
      }
    },
    async close() {
      closed = true;
    },
  };
}
