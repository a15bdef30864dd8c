import type { Store } from './store.ts';

/** A store that lasts as long as the process. */
export function createMemoryStore(): Store {
  const accounts = new Map<string, Map<string, string>>();
  let closed = false;
  const open = () => {
    if (closed) throw new Error('the store is closed');
  };
  return {
    async scan(account, prefix) {
      open();
      return new Map([...(accounts.get(account) ?? [])].filter(([key]) => key.startsWith(prefix)));
    },
    async commit(account, changes) {
      open();
      const rows = accounts.get(account) ?? new Map<string, string>();
      accounts.set(account, rows);
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
