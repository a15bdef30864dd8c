import type { Clock } from '../../src/kit/clock.ts';
import { StoreError } from '../../src/store/errors.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import { type LeaderLease, NO_ACCOUNT, type Store } from '../../src/store/store.ts';

/** An in-memory store that a leader and its standbys share, with a lease as in a database. */
export interface SharedStore {
  /**
   * Returns the store of one process. Closing the store keeps the rows. `clock`: clock of the process; default: the database's
   * clock.
   */
  join(id: string, clock?: Pick<Clock, 'monotonic'>): Store & { readonly lease: LeaderLease };
  /** Store of the same rows without fencing. */
  readonly rows: Store;
  /** Whether all requests of processes fail. */
  isUnavailable: boolean;
  /** Process that alone may acquire the lease; undefined: any. */
  next: string | undefined;
  /** Sets the URL of a process. */
  answersAt(id: string, url: string): void;
  /** Ends the lease at once. */
  expire(): void;
  /** Returns the holder of the lease, even if it has expired. */
  leader(): string | undefined;
  /** Lease changes, commits and exits in order: `one leads`, `one committed a`, `one released`, `one closed`. */
  readonly course: readonly string[];
  /** Blocks the renewals of a process. Returns a function to unblock them. */
  hang(id: string): () => void;
}

/** Creates a shared store. `clock`: clock of the database. */
export function createSharedStore(clock: Pick<Clock, 'now' | 'monotonic'>, leaseTime = 15_000): SharedStore {
  const rows = createMemoryStore();
  const held = { holder: undefined as string | undefined, epoch: 0, since: 0, renewed: 0, until: 0 };
  const course: string[] = [];
  const urls = new Map<string, string>();
  const hung = new Map<string, Promise<void>>();
  const urlOf = (id: string) => urls.get(id) ?? `http://${id}.invalid`;

  function join(id: string, own: Pick<Clock, 'monotonic'> = clock) {
    let epoch: number | undefined;
    let isOver = false;
    let surelyUntil = 0;
    let seen: ReturnType<LeaderLease['leader']>;
    let isClosed = false;

    async function answer(): Promise<void> {
      // As on a network, results arrive in a later turn of the event loop.
      await new Promise<void>(resolve => setImmediate(resolve));
      if (isClosed) throw new StoreError('closed', 'the database');
      if (shared.isUnavailable) throw new StoreError('io', 'the database', 'away');
    }
    const isMine = () => held.holder === id && held.epoch === epoch;

    const lease: LeaderLease = {
      self: {
        id,
        get url() {
          return urlOf(id);
        },
      },
      leaseTime,
      async renew() {
        const asked = own.monotonic();
        await hung.get(id);
        await answer();
        const now = clock.now();
        if (epoch !== undefined && !isMine()) isOver = true;
        const isFree = held.holder === undefined || held.until <= now;
        if (!isOver && epoch === undefined && isFree && (shared.next ?? id) === id) {
          epoch = held.epoch + 1;
          Object.assign(held, { holder: id, epoch, since: now });
          course.push(`${id} leads`);
        }
        if (!isOver && isMine()) {
          Object.assign(held, { renewed: now, until: now + leaseTime });
          surelyUntil = asked + leaseTime;
        }
        const { holder, since, renewed } = held;
        seen = holder === undefined ? undefined : { id: holder, url: urlOf(holder), since, age: now - renewed };
        return isOver ? 'lost' : epoch === undefined ? 'standby' : 'leader';
      },
      async release() {
        isOver = true;
        await answer();
        if (!isMine()) return;
        held.holder = undefined;
        course.push(`${id} released`);
      },
      remaining: () => (isOver || epoch === undefined ? 0 : Math.max(0, surelyUntil - own.monotonic())),
      leader: () => seen,
    };
    return {
      lease,
      async scan(account, prefix) {
        await answer();
        return rows.scan(account, prefix);
      },
      async sizes(account, prefix) {
        await answer();
        return rows.sizes(account, prefix);
      },
      async commit(account, ...what) {
        await answer();
        if (isOver || !isMine() || held.until <= clock.now()) throw new StoreError('not_held', 'the database');
        await rows.commit(account, ...what);
        course.push(`${id} committed ${account}`);
      },
      async command(...what) {
        await answer();
        await rows.commit(NO_ACCOUNT, ...what);
      },
      async valuesOf(key) {
        await answer();
        return rows.valuesOf(key);
      },
      async create(key, value) {
        await answer();
        await rows.create(key, value);
      },
      async close() {
        isClosed = true;
        course.push(`${id} closed`);
      },
    } satisfies Store;
  }

  const shared: SharedStore = {
    join,
    rows,
    isUnavailable: false,
    next: undefined,
    answersAt: (id, url) => void urls.set(id, url),
    expire() {
      held.until = 0;
    },
    leader: () => held.holder,
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
