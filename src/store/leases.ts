import { hash, randomUUID } from 'node:crypto';
import pLimit from 'p-limit';
import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import { heldSql, leaseStatements } from './leases-sql.ts';
import type { LeaseParts } from './postgres.ts';
import type { DatabaseRow, PostgresDatabase } from './postgres-database.ts';
import type { Fence } from './postgres-lane.ts';
import { assignAccounts, type Member } from './shares.ts';
import type { RenewalResult, Replica, Replicas, Sharing } from './store.ts';

export interface LeasesDeps {
  readonly database: Pick<PostgresDatabase, 'query' | 'schema'>;
  readonly url: string;
  /** Duration of a lease (ms), which exceeds the interval between renewals and the duration of any statement. */
  readonly leaseTime: number;
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly log: Log;
}

interface Listed extends Member, Replica {
  /** Whether the replica failed to renew in time. Its leases last until another replica ends them. */
  readonly ended: boolean;
}

interface Lease {
  readonly holder: string | null;
  readonly epoch: string;
}

interface Renewal {
  readonly requestedAt: number;
  readonly at: number;
}

interface OwnLease {
  readonly epoch: string;
  lost: boolean;
}

const ENDED = 'the leases ended before they were renewed: all accounts are closed, another replica may hold them';

/** Fraction of the lease time. If proving this replica alive takes longer, a renewal skips its other statements. */
const SLOW_FRACTION = 1 / 6;

const digestOf = (accounts: readonly string[]) => hash('sha256', JSON.stringify(accounts), 'base64url');
const pairs = (some: readonly (readonly [string, { readonly epoch: string }])[]) => [
  some.map(([account]) => account),
  some.map(([, { epoch }]) => epoch),
];

/** Creates leases in PostgreSQL; see docs/adr/0015-leases.md. */
export function createLeases({ database, url, leaseTime, clock, log }: LeasesDeps): LeaseParts {
  const sql = leaseStatements(database.schema);
  const query = (text: string, ...values: unknown[]) => database.query('lease', text, values);
  let since = 0;
  const self: Replica = {
    id: randomUUID(),
    url,
    get since() {
      return since;
    },
  };
  const own = new Map<string, OwnLease>();
  let last: Renewal | undefined;
  /** Monotonic time of the first renewal after the last gap in which other replicas may also have failed to renew. */
  let steadySince = 0;
  let configured: ReadonlyMap<string, ReadonlySet<string>> = new Map();
  let hasUnreportedLoss = false;
  let sharing: Sharing | undefined;
  const serially = pLimit(1);

  const held = () => [...own].filter(([, { lost }]) => !lost);

  const lostNow = () => [...own].flatMap(([account, { lost }]) => (lost ? [account] : []));

  function loseAll(): void {
    const accounts = held();
    if (accounts.length === 0) return;
    for (const [, lease] of accounts) lease.lost = true;
    hasUnreportedLoss = true;
    log.warn({ accounts: accounts.length }, ENDED);
  }

  /** Renews this replica's row. If the row was removed, all accounts are lost, and the replica joins again. */
  async function proveAlive(accounts: readonly string[]): Promise<Renewal> {
    const digest = digestOf(accounts);
    let requestedAt = clock.monotonic();
    let [row] = await query(sql.renew, self.id, leaseTime, url, digest, accounts);
    if (!row) {
      if (last) loseAll();
      last = undefined;
      requestedAt = clock.monotonic();
      [row] = await query(sql.join, self.id, leaseTime, url, digest, accounts, since || null);
    }
    since = Number(row?.since);
    const at = Number(row?.at);
    // The database was unavailable or its clock stepped: other replicas need time to renew before they count as expired.
    if (!last || Math.max(requestedAt - last.requestedAt, at - last.at) > leaseTime / 2) steadySince = requestedAt;
    last = { requestedAt, at };
    return last;
  }

  async function readReplicas(): Promise<Listed[]> {
    const rows = await query(sql.replicas, [...configured.keys()]);
    const known = configured;
    const accountsOf = ({ digest, accounts }: DatabaseRow) =>
      known.get(String(digest)) ?? new Set(Array.isArray(accounts) ? accounts.map(String) : []);
    const listed = rows.map(row => ({
      id: String(row.id),
      url: String(row.url),
      since: Number(row.since),
      ended: row.ended === true,
      accounts: accountsOf(row),
    }));
    configured = new Map(rows.map((row, n) => [String(row.digest), listed[n]?.accounts ?? new Set()]));
    return listed;
  }

  /** Returns the replicas that may hold leases. Ends the leases of expired replicas once renewals are steady. */
  async function endOthers(requestedAt: number): Promise<Listed[]> {
    const listed = await readReplicas();
    if (requestedAt - steadySince < leaseTime / 2 || !listed.some(({ ended }) => ended)) return listed;
    await query(sql.end);
    return readReplicas();
  }

  async function readLeases(): Promise<Map<string, Lease>> {
    const rows = await query(sql.leases);
    return new Map(
      rows.map(({ account, holder, epoch }) => [
        String(account),
        { holder: holder === null ? null : String(holder), epoch: String(epoch) },
      ]),
    );
  }

  /** Marks accounts as lost and releases stray leases. */
  async function settle(leases: Map<string, Lease>): Promise<void> {
    const isOurs = (account: string, { holder, epoch }: Lease) => holder === self.id && epochOf(account) === epoch;
    for (const [account, lease] of held()) {
      const found = leases.get(account);
      if (found && isOurs(account, found)) continue;
      lease.lost = true;
      hasUnreportedLoss = true;
    }
    // Stray leases come from a removed replica row, a takeover whose response was lost, or a restored backup.
    const stray = [...leases].filter(([account, lease]) => lease.holder === self.id && !isOurs(account, lease));
    if (stray.length === 0) return;
    await query(sql.release, self.id, ...pairs(stray));
    for (const [account, { epoch }] of stray) leases.set(account, { holder: null, epoch });
  }

  async function add(accounts: readonly string[], leases: Map<string, Lease>): Promise<void> {
    const added = accounts.filter(account => !leases.has(account));
    if (added.length === 0) return;
    await query(sql.add, added);
    for (const account of added) leases.set(account, { holder: null, epoch: '0' });
  }

  async function take(accounts: readonly string[], leases: ReadonlyMap<string, Lease>): Promise<string[]> {
    const wanted = accounts.flatMap(account => {
      const lease = leases.get(account);
      return lease && !own.has(account) ? [[account, lease] as const] : [];
    });
    if (wanted.length === 0) return [];
    const rows = await query(sql.take, self.id, ...pairs(wanted));
    return rows.map(({ account, epoch }) => {
      own.set(String(account), { epoch: String(epoch), lost: false });
      return String(account);
    });
  }

  async function renew(accounts: readonly string[]): Promise<RenewalResult> {
    const sorted = [...new Set(accounts)].sort();
    const { requestedAt, at } = await proveAlive(sorted);
    // The database is slow: return before the leases expire. The next renewal redistributes the accounts.
    if (held().length > 0 && clock.monotonic() - requestedAt > leaseTime * SLOW_FRACTION) {
      if (sharing) sharing = { ...sharing, at };
      return { gained: [], lost: lostNow(), excess: [] };
    }
    const listed = await endOthers(requestedAt);
    const leases = await readLeases();
    await settle(leases);
    await add(sorted, leases);

    const mayHold = new Set(listed.map(({ id }) => id));
    const holders = new Map<string, string>();
    for (const [account, { holder }] of leases)
      if (holder !== null && mayHold.has(holder)) holders.set(account, holder);
    const replicas = listed.filter(({ ended }) => !ended);
    const plan = assignAccounts(replicas, holders);
    const excess = held().flatMap(([account]) => (plan.get(account) === self.id ? [] : [account]));
    const gained = await take(
      [...plan].flatMap(([account, id]) => (id === self.id ? [account] : [])),
      leases,
    );
    for (const account of gained) holders.set(account, self.id);
    const alive = new Set(replicas.map(({ id }) => id));
    sharing = {
      at,
      replicas: replicas.map(({ id, url, since }) => ({ id, url, since })),
      holders: new Map([...holders].filter(([, holder]) => alive.has(holder))),
    };
    return { gained, lost: lostNow(), excess };
  }

  /** Returns lost accounts even if a later statement of the renewal fails. */
  async function renewAndReport(accounts: readonly string[]): Promise<RenewalResult> {
    try {
      return await renew(accounts);
    } catch (error) {
      if (!hasUnreportedLoss) throw error;
      return { gained: [], lost: lostNow(), excess: [] };
    } finally {
      hasUnreportedLoss = false;
    }
  }

  async function release(accounts: readonly string[]): Promise<void> {
    const given = new Set(accounts);
    const known = held().filter(([account]) => given.has(account));
    // Mark the leases as lost first, because the statement may take effect at any time if its response is lost.
    for (const [, lease] of known) lease.lost = true;
    if (known.length > 0) await query(sql.release, self.id, ...pairs(known));
    for (const account of given) own.delete(account);
  }

  async function leave(): Promise<void> {
    await query(sql.leave, self.id);
    for (const [, lease] of own) lease.lost = true;
    last = undefined;
  }

  function epochOf(account: string): string | undefined {
    const lease = own.get(account);
    return lease && !lease.lost ? lease.epoch : undefined;
  }

  const replicas: Replicas = {
    self,
    leaseTime,
    renew: accounts => serially(() => renewAndReport(accounts)),
    release: accounts => serially(() => release(accounts)),
    leave: () => serially(leave),
    remaining: account =>
      last && epochOf(account) !== undefined ? Math.max(0, last.requestedAt + leaseTime - clock.monotonic()) : 0,
    sharing: () => sharing,
  };
  const fence: Fence = { epochOf, heldSql: heldSql(database.schema, self.id) };
  return { replicas, fence };
}
