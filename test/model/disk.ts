/** What a simulated machine keeps when a process dies: committed rows. */

import type { Change } from '../../src/model/change.ts';
import { checkChanges } from '../../src/store/changes.ts';
import { StoreError } from '../../src/store/errors.ts';
import { type Guard, NO_ACCOUNT, type Store } from '../../src/store/store.ts';
import type { Time } from './time.ts';

export interface Disk {
  /** Commits are refused until then. */
  failsUntil: number;
  /** Each commit takes so long, milliseconds, until `slowUntil`. */
  latency: number;
  slowUntil: number;
  rows(account: string): ReadonlyMap<string, string>;
  /** The store of one process. `step`: it may die there; what it does afterwards never happens. */
  storeFor(
    process: { readonly isAlive: boolean; step(): void },
    onCommitted: (changes: readonly Change[]) => void,
  ): Store;
  /** For those who are no process of ours: they reach the same rows. */
  readonly outside: Pick<Store, 'scan' | 'sizes' | 'valuesOf' | 'commit' | 'create'>;
  readonly counts: { commits: number; refused: number };
}

const never = new Promise<never>(() => undefined);

export function createDisk(time: Time): Disk {
  const accounts = new Map<string, Map<string, string>>();
  const counts = { commits: 0, refused: 0 };

  function of(account: string): Map<string, string> {
    const rows = accounts.get(account) ?? new Map<string, string>();
    accounts.set(account, rows);
    return rows;
  }

  function write(account: string, changes: readonly Change[], guard?: Guard): void {
    if (guard && of(guard.account).get(guard.key) !== guard.value) throw new StoreError('guard_failed', 'the row');
    const rows = of(account);
    for (const { key, value } of changes) {
      if (value === null) rows.delete(key);
      else rows.set(key, value);
    }
  }

  const scan = async (account: string, prefix: string) =>
    new Map([...of(account)].filter(([key]) => key.startsWith(prefix)));

  async function sizes(account: string, prefix: string) {
    const rows = await scan(account, prefix);
    return new Map([...rows].map(([key, value]) => [key, Buffer.byteLength(value)]));
  }

  const valuesOf = async (key: string) =>
    new Map(
      [...accounts].flatMap(([account, rows]) =>
        [...rows].filter(([name]) => name === key).map(([, value]) => [account, value] as const),
      ),
    );

  async function create(key: string, value: string, commit: Store['commit']): Promise<void> {
    if (!of(NO_ACCOUNT).has(key)) await commit(NO_ACCOUNT, [{ key, value }]);
  }

  const outside: Disk['outside'] = {
    scan,
    sizes,
    valuesOf,
    commit: async (account, changes, guard) => write(account, changes, guard),
    create: (key, value) => create(key, value, outside.commit),
  };

  const self: Disk = {
    failsUntil: 0,
    latency: 0,
    slowUntil: 0,
    rows: of,
    counts,
    outside,
    storeFor(process, onCommitted) {
      let last: Promise<unknown> = Promise.resolve();

      async function commit(account: string, changes: readonly Change[], guard?: Guard): Promise<void> {
        if (!process.isAlive) return never;
        checkChanges(account, changes);
        if (time.now < self.failsUntil) {
          counts.refused += 1;
          throw new StoreError('full', 'the store');
        }
        if (time.now < self.slowUntil) await new Promise<void>(resolve => void time.after(self.latency, resolve));
        if (!process.isAlive) return never;
        process.step();
        if (!process.isAlive) return never;
        counts.commits += 1;
        write(account, changes, guard);
        onCommitted(changes);
        process.step();
        if (!process.isAlive) return never;
      }

      return {
        scan: (account, prefix) => (process.isAlive ? scan(account, prefix) : never),
        sizes: (account, prefix) => (process.isAlive ? sizes(account, prefix) : never),
        valuesOf: key => (process.isAlive ? valuesOf(key) : never),
        create: (key, value) => create(key, value, commit),
        commit(account, changes, guard) {
          const turn = last.then(() => commit(account, changes, guard));
          last = turn.catch(() => undefined);
          return turn;
        },
        close: async () => void (await last),
      };
    },
  };
  return self;
}
