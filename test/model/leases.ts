/** Leases in a simulated PostgreSQL, timed by the database's clock. Each acquisition gets a new epoch. */
import { StoreError } from '../../src/store/errors.ts';
import { assignAccounts } from '../../src/store/shares.ts';
import type { Replicas } from '../../src/store/store.ts';
import type { Time } from './time.ts';

/** Lease time (ms): three times the default, to reduce the number of renewals. */
export const LEASE_TIME = 45_000;

interface Member {
  readonly since: number;
  readonly url: string;
  renewedAt: number;
  accounts: ReadonlySet<string>;
}

interface Lease {
  holder: string | undefined;
  epoch: number;
}

/** Lease operations of one process. */
export interface OwnLeases {
  readonly replicas: Replicas;
  /** Throws a StoreError unless this process holds the account, as the database does in each commit. */
  fence(account: string): void;
}

export interface LeaseTable {
  /**
   * Returns the lease operations of a process. `awake` resolves once the process is running. `isUnavailable`: whether requests
   * fail.
   */
  of(deps: { id: string; monotonic(): number; awake(): Promise<void>; isUnavailable(): boolean }): OwnLeases;
}

export function createLeaseTable(time: Time): LeaseTable {
  const members = new Map<string, Member>();
  const leases = new Map<string, Lease>();

  function leaseOf(account: string): Lease {
    const lease = leases.get(account) ?? { holder: undefined, epoch: 0 };
    leases.set(account, lease);
    return lease;
  }

  function free(id: string): void {
    members.delete(id);
    for (const lease of leases.values()) if (lease.holder === id) lease.holder = undefined;
  }

  function endExpired(): void {
    for (const [id, { renewedAt }] of members) if (renewedAt + LEASE_TIME < time.now) free(id);
  }

  const holders = () =>
    new Map([...leases].flatMap(([account, { holder }]) => (holder === undefined ? [] : [[account, holder] as const])));

  function of({ id, monotonic, awake, isUnavailable }: Parameters<LeaseTable['of']>[0]): OwnLeases {
    const own = new Map<string, { readonly epoch: number; isLost: boolean }>();
    let askedAt: number | undefined;
    let sharing: ReturnType<Replicas['sharing']>;
    const self = { id, url: `http://${id}.test`, since: 0 };
    const isOurs = (account: string) => {
      const { holder, epoch } = leaseOf(account);
      return holder === id && own.get(account)?.epoch === epoch && own.get(account)?.isLost === false;
    };

    async function request(): Promise<void> {
      await awake();
      if (isUnavailable()) throw new StoreError('away', 'the store');
    }

    const replicas: Replicas = {
      self,
      leaseTime: LEASE_TIME,
      async renew(accounts) {
        const asked = monotonic();
        await request();
        const known = members.get(id);
        if (!known) for (const lease of own.values()) lease.isLost = true;
        const member = { since: time.now, url: self.url, ...known, renewedAt: time.now, accounts: new Set(accounts) };
        members.set(id, member);
        self.since = member.since;
        askedAt = asked;
        endExpired();
        for (const account of accounts) leaseOf(account);
        for (const [account, lease] of own) if (!isOurs(account)) lease.isLost = true;
        for (const [account, lease] of leases) if (lease.holder === id && !isOurs(account)) lease.holder = undefined;
        const list = [...members].map(([id, { accounts }]) => ({ id, accounts }));
        const plan = assignAccounts(list, holders());
        const excess = [...own.keys()].filter(account => isOurs(account) && plan.get(account) !== id);
        const gained: string[] = [];
        for (const [account, to] of plan) {
          const lease = leaseOf(account);
          if (to !== id || own.has(account) || lease.holder !== undefined) continue;
          lease.holder = id;
          lease.epoch += 1;
          own.set(account, { epoch: lease.epoch, isLost: false });
          gained.push(account);
        }
        const lost = [...own].flatMap(([account, { isLost }]) => (isLost ? [account] : []));
        const replicas = [...members].map(([id, { url, since }]) => ({ id, url, since }));
        sharing = { at: time.now, replicas, holders: holders() };
        return { gained, lost, excess };
      },
      async release(accounts) {
        const ours = accounts.filter(isOurs);
        for (const account of accounts) {
          const lease = own.get(account);
          if (lease) lease.isLost = true;
        }
        await request();
        for (const account of ours) leaseOf(account).holder = undefined;
        for (const account of accounts) own.delete(account);
      },
      async leave() {
        await request();
        free(id);
        for (const lease of own.values()) lease.isLost = true;
        askedAt = undefined;
      },
      remaining(account) {
        const lease = own.get(account);
        return !lease || lease.isLost || askedAt === undefined ? 0 : Math.max(0, askedAt + LEASE_TIME - monotonic());
      },
      sharing: () => sharing,
    };
    return {
      replicas,
      fence(account) {
        if (!isOurs(account)) throw new StoreError('not_held', 'the store');
      },
    };
  }

  return { of };
}
