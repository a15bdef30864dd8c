import type { Clock } from '../../src/kit/clock.ts';
import type { Change } from '../../src/model/change.ts';
import { StoreError } from '../../src/store/errors.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import { type Guard, NO_ACCOUNT, type Replica, type Replicas, type Store } from '../../src/store/store.ts';

/** An in-memory store that replicas share, with leases as in a database. */
export interface SharedStore {
  /**
   * Returns the store of one replica. Closing the store keeps the rows. `clock`: clock of the replica's process;
   * default: the database's clock.
   */
  join(id: string, clock?: Pick<Clock, 'monotonic'>): Store & { readonly replicas: Replicas };
  /** Store of the same rows without fencing. */
  readonly rows: Store;
  /** Whether all requests of replicas fail. */
  isUnavailable: boolean;
  /** Assigns an account to a replica; undefined restores even distribution. */
  place(account: string, id: string | undefined): void;
  /** Sets the URL of a replica. */
  answersAt(id: string, url: string): void;
  /** Ends the lease of an account. Any replica may acquire it next. */
  expire(account: string): void;
  /** Returns the current holders by account. */
  holders(): ReadonlyMap<string, string>;
  /**
   * Lease changes, commits and exits in order: `one gained a`, `one committed a`, `one released a`, `one left`, `one
   * closed`.
   */
  readonly course: readonly string[];
  /** Blocks the renewals of a replica. Returns a function to unblock them. */
  hang(id: string): () => void;
}

interface Lease {
  readonly holder: string;
  readonly epoch: number;
  until: number;
}

/** Creates a shared store. `clock`: clock of the database. */
export function createSharedStore(clock: Pick<Clock, 'now' | 'monotonic'>, leaseTime = 15_000): SharedStore {
  const rows = createMemoryStore();
  const leases = new Map<string, Lease>();
  const running = new Map<string, { readonly replica: Replica; until: number }>();
  const placed = new Map<string, string>();
  const course: string[] = [];
  const urls = new Map<string, string>();
  const hung = new Map<string, Promise<void>>();
  let epochs = 0;
  const isValid = (lease: Lease | undefined): lease is Lease => lease !== undefined && lease.until > clock.now();

  /** Returns the maximum number of accounts per replica. */
  const shareOf = (accounts: readonly string[]) => Math.ceil(accounts.length / Math.max(1, running.size));

  function join(id: string, own: Pick<Clock, 'monotonic'> = clock) {
    const self = {
      id,
      since: clock.now(),
      get url() {
        return urls.get(id) ?? `http://${id}.invalid`;
      },
    };
    /** Epochs of held accounts. `lost`: accounts not yet confirmed as closed. */
    const held = new Map<string, number>();
    const lost = new Set<string>();
    const surelyUntil = new Map<string, number>();
    let sharing: ReturnType<Replicas['sharing']>;
    let isClosed = false;

    async function answer(): Promise<void> {
      // As on a network, results arrive in a later turn of the event loop.
      await new Promise<void>(resolve => setImmediate(resolve));
      if (isClosed) throw new StoreError('closed', 'the database');
      if (shared.isUnavailable) throw new StoreError('io', 'the database', 'away');
    }
    const isMine = (account: string) => {
      const lease = leases.get(account);
      return lease !== undefined && lease.holder === id && lease.epoch === held.get(account);
    };

    const replicas: Replicas = {
      self,
      leaseTime,
      async renew(accounts) {
        const asked = own.monotonic();
        await hung.get(id);
        await answer();
        const now = clock.now();
        running.set(id, { replica: self, until: now + leaseTime });
        for (const [other, { until }] of running) if (until <= now) running.delete(other);
        const gone = [...held.keys()].filter(account => !isMine(account));
        for (const account of gone) {
          held.delete(account);
          lost.add(account);
          surelyUntil.delete(account);
        }
        for (const account of held.keys()) {
          (leases.get(account) as Lease).until = now + leaseTime;
          surelyUntil.set(account, asked + leaseTime);
        }
        const excess = [...held.keys()].filter(
          account => !accounts.includes(account) || (placed.get(account) ?? id) !== id,
        );
        const unplaced = () => [...held.keys()].filter(account => !excess.includes(account) && !placed.has(account));
        const share = shareOf(accounts.filter(account => !placed.has(account)));
        excess.push(...unplaced().slice(share));
        const gained: string[] = [];
        for (const account of accounts) {
          if (held.has(account) || lost.has(account) || isValid(leases.get(account))) continue;
          if ((placed.get(account) ?? id) !== id || (!placed.has(account) && unplaced().length >= share)) continue;
          epochs += 1;
          leases.set(account, { holder: id, epoch: epochs, until: now + leaseTime });
          held.set(account, epochs);
          surelyUntil.set(account, asked + leaseTime);
          course.push(`${id} gained ${account}`);
          gained.push(account);
        }
        sharing = { at: now, replicas: [...running.values()].map(({ replica }) => replica), holders: holders() };
        return { gained, lost: [...lost], excess };
      },
      async release(accounts) {
        await answer();
        for (const account of accounts) {
          if (isMine(account)) leases.delete(account);
          course.push(`${id} released ${account}`);
          held.delete(account);
          lost.delete(account);
          surelyUntil.delete(account);
        }
      },
      async leave() {
        await answer();
        running.delete(id);
        course.push(`${id} left`);
      },
      remaining: account => Math.max(0, (surelyUntil.get(account) ?? 0) - own.monotonic()),
      sharing: () => sharing,
    };
    return {
      replicas,
      async scan(account: string, prefix: string) {
        await answer();
        return rows.scan(account, prefix);
      },
      async sizes(account: string, prefix: string) {
        await answer();
        return rows.sizes(account, prefix);
      },
      async commit(account: string, ...what: [changes: readonly Change[], guard?: Guard]) {
        await answer();
        if (account !== NO_ACCOUNT && !isMine(account)) throw new StoreError('not_held', 'the account');
        await rows.commit(account, ...what);
        course.push(`${id} committed ${account}`);
      },
      async valuesOf(key: string) {
        await answer();
        return rows.valuesOf(key);
      },
      async create(key: string, value: string) {
        await answer();
        await rows.create(key, value);
      },
      async close() {
        isClosed = true;
        course.push(`${id} closed`);
      },
    };
  }

  function holders(): ReadonlyMap<string, string> {
    return new Map(
      [...leases].flatMap(([account, lease]) => (isValid(lease) ? [[account, lease.holder] as const] : [])),
    );
  }

  const shared: SharedStore = {
    join,
    rows,
    isUnavailable: false,
    place(account, id) {
      if (id === undefined) placed.delete(account);
      else placed.set(account, id);
    },
    answersAt: (id, url) => void urls.set(id, url),
    expire: account => void leases.delete(account),
    holders,
    course,
    hang(id) {
      const { promise, resolve } = Promise.withResolvers<void>();
      hung.set(id, promise);
      return () => {
        hung.delete(id);
        resolve();
      };
    },
  };
  return shared;
}
