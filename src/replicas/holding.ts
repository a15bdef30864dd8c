import { type Clock, unlessAborted } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import { createLoops } from '../scheduler/loop.ts';
import { StoreError } from '../store/errors.ts';
import { isNotHeld, NO_ACCOUNT, type RenewalResult, type Replicas, type Sharing, type Store } from '../store/store.ts';

/** Leases of this replica. Undefined without replicas: then the agent owns all accounts. */
export type Leases = ReturnType<typeof createLeaseHolder>;

/** Leases as seen by code that does not open or close accounts. */
export type Holding = Omit<Leases, 'start' | 'use' | 'leaving' | 'release' | 'refuse' | 'drain' | 'close'>;

export interface LeaseEvents {
  /** Called synchronously, because another replica may own the accounts already. */
  lost(accounts: readonly string[]): void;
  renewed(): void;
}

export interface HoldingDeps {
  readonly replicas: Replicas;
  readonly accounts: readonly string[];
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Log;
}

/** Number of renewals within the lease time. */
const RENEWALS = 5;

/** Time limits of a shutdown while the database does not respond (ms): for saving, then for releasing accounts. */
const [LAST_SAVE, LAST_RELEASE] = [4000, 2000];

export function createLeaseHolder({ replicas, clock, random, log, ...deps }: HoldingDeps) {
  const { leaseTime } = replicas;
  const loops = createLoops({ clock, random });
  const held = new Set<string>();
  const leaving = new Map<string, 'lost' | 'excess'>();
  /** Closed accounts whose lease is not released yet. */
  const closed = new Set<string>();
  /** Accounts that failed to open, with the time of the next attempt on the monotonic clock. */
  const refused = new Map<string, number>();
  let configured = deps.accounts;
  let isDraining = false;
  let events: LeaseEvents | undefined;
  let outage: { readonly since: number; failedAt: number; error: unknown } | undefined;
  let running: Promise<void> | undefined;
  const shutdown = new AbortController();
  const ended = new AbortController();

  /** Aborts a controller after `ms`, unless the shutdown completes earlier. */
  async function limit(controller: AbortController, ms: number): Promise<void> {
    try {
      await clock.sleep(ms, ended.signal);
    } catch {
      return;
    }
    controller.abort(new StoreError('slow', 'the store', 'this process ends'));
  }

  function wanted(): string[] {
    if (isDraining) return [];
    for (const [account, until] of refused) if (clock.monotonic() >= until) refused.delete(account);
    return [NO_ACCOUNT, ...configured.filter(account => !refused.has(account))];
  }

  function apply({ gained, lost, excess }: RenewalResult): void {
    for (const account of gained) held.add(account);
    for (const account of excess) {
      if (isDraining || !held.delete(account)) continue;
      leaving.set(account, 'excess');
    }
    const moved = lost.filter(account => held.delete(account) || leaving.has(account));
    for (const account of moved) leaving.set(account, 'lost');
    if (moved.length > 0) events?.lost(moved);
  }

  function failed(error: unknown): void {
    const failedAt = clock.monotonic();
    if (outage) {
      Object.assign(outage, { failedAt, error });
      return;
    }
    outage = { since: clock.now(), failedAt, error };
    log.warn(
      { error: String(error) },
      'database unavailable: polling continues, counters are frozen, auto-cancel is suspended',
    );
  }

  function succeeded(): void {
    if (!outage) return;
    const seconds = Math.round((clock.now() - outage.since) / 1000);
    outage = undefined;
    log.info({ seconds }, 'database available again');
  }

  async function releaseClosed(): Promise<void> {
    const accounts = [...closed];
    if (accounts.length === 0) return;
    for (const account of accounts) closed.delete(account);
    try {
      await replicas.release(accounts);
    } catch (error) {
      for (const account of accounts) closed.add(account);
      log.debug(
        { accounts: accounts.length, error: String(error) },
        'failed to release accounts; retrying with the next renewal',
      );
    }
  }

  async function attempt(): Promise<void> {
    const since = clock.monotonic();
    try {
      apply(await replicas.renew(wanted()));
    } catch (error) {
      // Statements time out earlier: a longer wait shows that this process was paused.
      if (clock.monotonic() - since < leaseTime) failed(error);
      return;
    }
    succeeded();
    await releaseClosed();
    events?.renewed();
  }

  function renew(): Promise<void> {
    running ??= attempt().finally(() => {
      running = undefined;
    });
    return running;
  }

  const isHeld = (account: string) => held.has(account) || leaving.get(account) === 'excess';
  const isCurrent = (account: string) => outage !== undefined || replicas.remaining(account) > 0;
  /** Whether a renewal failed so recently that another attempt would only delay requests. */
  const isCertainlyUnavailable = () =>
    outage !== undefined && clock.monotonic() - outage.failedAt < (leaseTime * 2) / 3;

  return {
    self: replicas.self,
    /** Whether this replica owns an account, or agent-wide work (`NO_ACCOUNT`). */
    held: (account: string): boolean => held.has(account),
    /** Returns the remaining lease time by the monotonic clock (ms); 0 if the lease may have expired. */
    remaining: (account: string): number => replicas.remaining(account),
    /**
     * Whether the lease of an owned account is valid by the monotonic clock, or the database is unavailable. Wrongly true after
     * the machine was suspended, which stops the monotonic clock. That is safe, because the database checks the epoch of
     * commits and cancels.
     */
    isCurrent,
    /** Returns the distribution of accounts; undefined before the first renewal. */
    sharing: (): Sharing | undefined => replicas.sharing(),
    /** Whether another replica owned the account at the last renewal. */
    isElsewhere(account: string): boolean {
      const holder = replicas.sharing()?.holders.get(account);
      return holder !== undefined && holder !== replicas.self.id;
    },
    /** Whether the last renewal failed: the holders of leases are unknown. */
    isUnavailable: (): boolean => outage !== undefined,
    /** Returns the time of the first failed renewal (ms since the Unix epoch); undefined if the last renewal succeeded. */
    unavailableSince: (): number | undefined => outage?.since,
    assertAvailable(): void {
      if (outage) throw outage.error;
    },
    /** Renews immediately, or joins a renewal in flight. Never rejects. */
    renew,
    /**
     * Renews an expired lease, and returns whether this replica owns the account. While the database is unavailable, this
     * replica keeps the accounts that it held.
     */
    async confirm(account: string): Promise<boolean> {
      // A joined renewal may have started before this process was paused.
      for (let time = 0; time < 2; time += 1) {
        if (isCertainlyUnavailable() || !isHeld(account) || replicas.remaining(account) > 0) break;
        await renew();
      }
      return isHeld(account) && isCurrent(account);
    },
    start(on: LeaseEvents): void {
      events = on;
      void loops.start(leaseTime / RENEWALS, 0, renew);
    },
    use(accounts: readonly string[]): void {
      configured = accounts;
    },
    /** Returns the accounts to close and release. `lost`: another replica may own the account. */
    leaving: (): ReadonlyMap<string, 'lost' | 'excess'> => leaving,
    /** Releases closed or lost accounts. If that fails, a later renewal retries it. */
    async release(accounts: readonly string[]): Promise<void> {
      for (const account of accounts) {
        leaving.delete(account);
        closed.add(account);
      }
      await releaseClosed();
    },
    /** Releases an account that failed to open. This replica may acquire it again after `ms` milliseconds. */
    async refuse(account: string, ms: number): Promise<void> {
      refused.set(account, clock.monotonic() + ms);
      if (held.delete(account) || leaving.delete(account)) closed.add(account);
      await releaseClosed();
    },
    /** Aborted a few seconds after `drain`, so that an unresponsive database does not delay the shutdown. */
    shutdownSignal: shutdown.signal,
    /** Stops acquiring accounts but keeps renewing. */
    drain(): void {
      if (isDraining) return;
      isDraining = true;
      void limit(shutdown, LAST_SAVE);
    },
    /** Releases all accounts, so that other replicas need not wait for the leases to expire. Never rejects. */
    async close(): Promise<void> {
      isDraining = true;
      const last = new AbortController();
      void limit(last, LAST_RELEASE);
      const renewed = Promise.all([loops.close(), running]);
      async function leave(): Promise<void> {
        // An unresponsive renewal would delay the shutdown.
        if (!outage) await renewed;
        for (const account of [...held, ...leaving.keys()]) closed.add(account);
        held.clear();
        leaving.clear();
        if (outage) throw outage.error;
        await replicas.release([...closed]);
        await replicas.leave();
      }
      try {
        await unlessAborted(leave(), last.signal);
      } catch (error) {
        const fields = { accounts: closed.size, error: String(error) };
        log.warn(fields, 'failed to release accounts: other replicas acquire them when the leases expire');
      } finally {
        ended.abort();
      }
    },
  };
}

const concernsDatabase = (error: unknown) =>
  error instanceof StoreError && !['invalid', 'guard_failed', 'closed'].includes(error.reason);

/**
 * Wraps the store so that a failed commit triggers a renewal, which detects a lost account or an unavailable database. While
 * the database is unavailable, only lease requests are sent, so that rounds and shutdowns do not wait for it.
 */
export function withLeaseCheck(
  store: Store,
  holding: Pick<Holding, 'isUnavailable' | 'renew' | 'assertAvailable' | 'shutdownSignal'>,
): Store {
  const { shutdownSignal } = holding;
  function send<T>(request: () => Promise<T>): Promise<T> {
    holding.assertAvailable();
    shutdownSignal.throwIfAborted();
    return unlessAborted(request(), shutdownSignal);
  }
  return {
    ...store,
    scan: async (...which) => send(() => store.scan(...which)),
    sizes: async (...which) => send(() => store.sizes(...which)),
    valuesOf: async key => send(() => store.valuesOf(key)),
    create: async (...which) => send(() => store.create(...which)),
    async commit(...what) {
      try {
        await send(() => store.commit(...what));
      } catch (error) {
        if (shutdownSignal.aborted) throw error;
        if (isNotHeld(error) || (concernsDatabase(error) && !holding.isUnavailable())) await holding.renew();
        throw error;
      }
    },
  };
}
