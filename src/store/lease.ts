import { randomUUID } from 'node:crypto';
import pLimit from 'p-limit';
import type { Clock } from '../kit/clock.ts';
import { StoreError } from './errors.ts';
import { heldSql, leaseStatements } from './lease-sql.ts';
import type { PostgresDatabase } from './postgres-database.ts';
import type { Fence } from './postgres-lane.ts';
import type { Leader, LeaderLease } from './store.ts';

export interface LeaseDeps {
  readonly database: Pick<PostgresDatabase, 'query' | 'schema' | 'subject'>;
  readonly url: string;
  /** Duration of the lease (ms), which exceeds the interval between renewals and the duration of any statement. */
  readonly leaseTime: number;
  readonly clock: Pick<Clock, 'monotonic'>;
}

export interface LeaseParts {
  readonly fence: Fence;
  readonly lease: LeaderLease;
}

/**
 * States of a process: `standby`, which acquires a free lease; `leader`; and `ended` after a loss or a release, which is final.
 * See docs/adr/0034-leader.md.
 */
type Phase = 'standby' | 'leader' | 'ended';

/** Creates the lease of a process in PostgreSQL. */
export function createLease({ database, url, leaseTime, clock }: LeaseDeps): LeaseParts {
  const sql = leaseStatements(database.schema);
  const query = (text: string, ...values: unknown[]) => database.query('lease', text, values);
  const self = { id: randomUUID(), url };
  const serially = pLimit(1);
  let phase: Phase = 'standby';
  let epoch = '0';
  /** Monotonic and database time of the last successful request. */
  let last: { readonly requestedAt: number; readonly at: number } | undefined;
  /** Monotonic time of the first request after the last gap in requests. In a gap, the leader may also have missed renewals. */
  let steadySince = 0;
  let leader: (Leader & { readonly renewed: number }) | undefined;

  function succeeded(requestedAt: number, at: number): void {
    // The database was unavailable or its clock stepped: the leader needs time to renew before its lease counts as expired.
    if (!last || Math.max(requestedAt - last.requestedAt, at - last.at) > leaseTime / 2) steadySince = requestedAt;
    last = { requestedAt, at };
  }

  async function renewOwn(): Promise<void> {
    const requestedAt = clock.monotonic();
    const [row] = await query(sql.renew, self.id, epoch, leaseTime);
    if (!row) {
      phase = 'ended';
      return;
    }
    succeeded(requestedAt, Number(row.at));
    leader = { ...self, since: Number(row.since), renewed: Number(row.at) };
  }

  async function acquire(): Promise<void> {
    const readAt = clock.monotonic();
    const [row] = await query(sql.read);
    // Without the row of the lease, no process could ever lead.
    if (!row) throw new StoreError('row', `the lease in ${database.subject}`);
    const { holder } = row;
    const at = Number(row.at);
    succeeded(readAt, at);
    const isOther = holder !== null && holder !== self.id;
    leader = isOther
      ? { id: String(holder), url: String(row.url), since: Number(row.since), renewed: Number(row.renewed) }
      : undefined;
    if (isOther && !(row.ended === true && readAt - steadySince >= leaseTime / 2)) return;
    const requestedAt = clock.monotonic();
    const [taken] = await query(sql.take, self.id, url, row.epoch, leaseTime);
    if (!taken) return;
    [phase, epoch] = ['leader', String(taken.epoch)];
    last = { requestedAt, at };
    leader = { ...self, since: at, renewed: at };
  }

  async function renew(): ReturnType<LeaderLease['renew']> {
    if (phase === 'leader') await renewOwn();
    else if (phase === 'standby') await acquire();
    return phase === 'ended' ? 'lost' : phase;
  }

  async function release(): Promise<void> {
    const wasLeader = phase === 'leader';
    // Stop leading first: if the response is lost, the statement may still take effect at any time.
    phase = 'ended';
    if (wasLeader) await query(sql.release, self.id, epoch);
  }

  const lease: LeaderLease = {
    self,
    leaseTime,
    renew: () => serially(renew),
    release: () => serially(release),
    remaining: () => (phase === 'leader' && last ? Math.max(0, last.requestedAt + leaseTime - clock.monotonic()) : 0),
    leader: () => leader && last && { ...leader, age: last.at + clock.monotonic() - last.requestedAt - leader.renewed },
  };
  const fence: Fence = {
    epoch: () => (phase === 'leader' ? epoch : undefined),
    heldSql: held => heldSql(database.schema, self.id, held),
  };
  return { lease, fence };
}
