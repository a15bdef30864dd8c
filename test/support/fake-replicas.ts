import type { Clock } from '../../src/kit/clock.ts';
import type { Change } from '../../src/model/change.ts';
import { StoreError } from '../../src/store/errors.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import { type Guard, NO_ACCOUNT, type Replica, type Replicas, type Store } from '../../src/store/store.ts';

/** One memory that replicas share, with leases as a database keeps them. */
export interface SharedStore {
  /** The store as one replica has it. `clock`: of that replica's process, default: the database's. Closing it leaves the rows. */
  join(id: string, clock?: Pick<Clock, 'monotonic'>): Store & { readonly replicas: Replicas };
  /** The rows themselves, not fenced. */
  readonly rows: Store;
  /** While it is true, everything that replicas ask is rejected. */
  isAway: boolean;
  /** Who is to have an account; others are shared out evenly. Undefined: as the others. */
  place(account: string, id: string | undefined): void;
  /** Where a replica answers from now on. */
  answersAt(id: string, url: string): void;
  /** Ends the lease of an account, as time would: whoever asks next may have it. */
  expire(account: string): void;
  /** Who holds an account now, by account. */
  holders(): ReadonlyMap<string, string>;
  /** What replicas asked and got, in order: `one gained a`, `one committed a`, `one released a`, `one left`, `one closed`. */
  readonly course: readonly string[];
  /** Renewals of this replica get no answer until what this gives is called. */
  hang(id: string): () => void;
}

interface Lease {
  readonly holder: string;
  readonly epoch: number;
  until: number;
}

/** `clock`: the database's. */
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

  /** Of all accounts, the most that one replica is to have. */
  const shareOf = (accounts: readonly string[]) => Math.ceil(accounts.length / Math.max(1, running.size));

  function join(id: string, own: Pick<Clock, 'monotonic'> = clock) {
    const self = {
      id,
      since: clock.now(),
      get url() {
        return urls.get(id) ?? `http://${id}.invalid`;
      },
    };
    /** Epochs under which this replica holds accounts, and those of which it was not said yet that all is closed. */
    const held = new Map<string, number>();
    const lost = new Set<string>();
    const surelyUntil = new Map<string, number>();
    let sharing: ReturnType<Replicas['sharing']>;
    let isClosed = false;

    async function answer(): Promise<void> {
      // As over a network: nothing is known in the same turn.
      await new Promise<void>(resolve => setImmediate(resolve));
      if (isClosed) throw new StoreError('closed', 'the database');
      if (shared.isAway) throw new StoreError('io', 'the database', 'away');
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
    isAway: false,
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
