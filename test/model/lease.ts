/** The lease in a simulated PostgreSQL, timed by the database's clock. Each acquisition has a new epoch. */
import { StoreError } from '../../src/store/errors.ts';
import type { LeaderLease } from '../../src/store/store.ts';
import type { Time } from './time.ts';

/** Lease time (ms): three times the default, to reduce the number of renewals. */
export const LEASE_TIME = 45_000;

/** Lease operations of one process. */
export interface OwnLease {
  readonly lease: LeaderLease;
  /** Throws a StoreError unless this process has the lease, as the database does in each commit. */
  fence(): void;
}

export interface LeaseRow {
  /**
   * Returns the lease operations of a process. `awake` resolves once the process is running. `isUnavailable`: whether requests
   * fail.
   */
  of(deps: { id: string; monotonic(): number; awake(): Promise<void>; isUnavailable(): boolean }): OwnLease;
}

export function createLeaseRow(time: Time): LeaseRow {
  const row = { holder: undefined as string | undefined, epoch: 0, since: 0, renewed: 0, expires: 0 };

  function of({ id, monotonic, awake, isUnavailable }: Parameters<LeaseRow['of']>[0]): OwnLease {
    let epoch: number | undefined;
    let isOver = false;
    let askedAt = 0;
    const isOurs = () => !isOver && row.holder === id && row.epoch === epoch;

    async function request(): Promise<void> {
      await awake();
      if (isUnavailable()) throw new StoreError('away', 'the store');
    }

    const lease: LeaderLease = {
      self: { id, url: `http://${id}.test` },
      leaseTime: LEASE_TIME,
      async renew() {
        const asked = monotonic();
        await request();
        if (epoch !== undefined && !isOurs()) isOver = true;
        const isFree = row.holder === undefined || row.expires <= time.now;
        if (!isOver && epoch === undefined && isFree) {
          epoch = row.epoch + 1;
          Object.assign(row, { holder: id, epoch, since: time.now });
        }
        if (isOurs()) {
          Object.assign(row, { renewed: time.now, expires: time.now + LEASE_TIME });
          askedAt = asked;
        }
        return isOver ? 'lost' : epoch === undefined ? 'standby' : 'leader';
      },
      async release() {
        const wasOurs = isOurs();
        isOver = true;
        await request();
        if (wasOurs && row.holder === id) row.holder = undefined;
      },
      remaining: () => (isOver || epoch === undefined ? 0 : Math.max(0, askedAt + LEASE_TIME - monotonic())),
      leader: () =>
        row.holder === undefined
          ? undefined
          : { id: row.holder, url: `http://${row.holder}.test`, since: row.since, age: time.now - row.renewed },
    };
    return {
      lease,
      fence() {
        if (!isOurs() || row.expires <= time.now) throw new StoreError('not_held', 'the store');
      },
    };
  }

  return { of };
}
