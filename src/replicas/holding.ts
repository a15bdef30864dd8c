import { type Clock, unlessAborted } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import { createLoops } from '../scheduler/loop.ts';
import { StoreError } from '../store/errors.ts';
import { isNotHeld, NO_ACCOUNT, type RenewalResult, type Replicas, type Sharing, type Store } from '../store/store.ts';

/** Leases of this replica. Undefined wherever it is optional: then the agent is alone and holds all accounts. */
export type Leases = ReturnType<typeof createHolding>;

/** Leases as seen by code that does not open or close accounts. */
export type Holding = Omit<Leases, 'start' | 'use' | 'leaving' | 'giveBack' | 'refuse' | 'drain' | 'close'>;

export interface LeaseEvents {
  /** Called synchronously, because another replica may hold them. */
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

const RENEWALS = 5;

/** Timeouts of a shutdown for an unresponsive database: to save, then to release accounts (ms). */
const [LAST_SAVE, LAST_RELEASE] = [4000, 2000];

export function createHolding({ replicas, clock, random, log, ...deps }: HoldingDeps) {
  const { leaseTime } = replicas;
  const loops = createLoops({ clock, random });
  const held = new Set<string>();
  const leaving = new Map<string, 'lost' | 'excess'>();
  /** Closed accounts that are not released because the database was unavailable. */
  const closed = new Set<string>();
  /** Accounts that failed to open, with the time of the next attempt on the monotonic clock. */
  const refused = new Map<string, number>();
  let configured = deps.accounts;
  let isDraining = false;
  let events: LeaseEvents | undefined;
  let away: { readonly since: number; failedAt: number; error: unknown } | undefined;
  let running: Promise<void> | undefined;
  const patience = new AbortController();
  const ended = new AbortController();

  /** Aborts a controller after a time, unless the process has finished before. */
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

  function take({ gained, lost, excess }: RenewalResult): void {
    for (const account of gained) held.add(account);
    for (const account of excess) {
      if (isDraining || !held.delete(account)) continue;
      leaving.set(account, 'excess');
    }
    const gone = lost.filter(account => held.delete(account) || leaving.has(account));
    for (const account of gone) leaving.set(account, 'lost');
    if (gone.length > 0) events?.lost(gone);
  }

  function failed(error: unknown): void {
    const failedAt = clock.monotonic();
    if (away) {
      Object.assign(away, { failedAt, error });
      return;
    }
    away = { since: clock.now(), failedAt, error };
    log.warn(
      { error: String(error) },
      'the database is away: reading goes on, counters stand still, auto-cancel cancels nothing',
    );
  }

  function answered(): void {
    if (!away) return;
    const seconds = Math.round((clock.now() - away.since) / 1000);
    away = undefined;
    log.info({ seconds }, 'the database is back');
  }

  async function releaseClosed(): Promise<void> {
    const accounts = [...closed];
    if (accounts.length === 0) return;
    for (const account of accounts) closed.delete(account);
    try {
      await replicas.release(accounts);
    } catch (error) {
      for (const account of accounts) closed.add(account);
      log.debug({ accounts: accounts.length, error: String(error) }, 'accounts could not be given back yet');
    }
  }

  async function attempt(): Promise<void> {
    const since = clock.monotonic();
    try {
      take(await replicas.renew(wanted()));
    } catch (error) {
      // Statements time out earlier. A longer wait shows that this process was stopped, not that the database failed.
      if (clock.monotonic() - since < leaseTime) failed(error);
      return;
    }
    answered();
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
  const isCurrent = (account: string) => away !== undefined || replicas.remaining(account) > 0;
  /** A renewal just failed: do not delay every request by another attempt. */
  const isSurelyAway = () => away !== undefined && clock.monotonic() - away.failedAt < (leaseTime * 2) / 3;

  return {
    self: replicas.self,
    /** Whether this replica runs the account or is opening it. `NO_ACCOUNT`: agent-wide work. */
    held: (account: string): boolean => held.has(account),
    /** Remaining lease time by the monotonic clock (ms); 0 if it may have expired. */
    remaining: (account: string): number => replicas.remaining(account),
    /**
     * Whether the lease of a held account is valid by the monotonic clock, or the database is unavailable. False after a
     * pause longer than the lease, until the next renewal. After a suspend of the machine, whose monotonic clock stood still,
     * it is wrongly true until then; commits and cancels are safe, because the database checks their epoch.
     */
    isCurrent,
    /** Distribution of accounts; undefined before the first renewal. */
    sharing: (): Sharing | undefined => replicas.sharing(),
    /** Whether another replica holds the account, as of the last renewal. */
    isElsewhere(account: string): boolean {
      const holder = replicas.sharing()?.holders.get(account);
      return holder !== undefined && holder !== replicas.self.id;
    },
    /** Whether the last renewal failed: the holders of leases are unknown. */
    isAway: (): boolean => away !== undefined,
    /** Time of the first failed renewal (ms since the Unix epoch, by this process's clock); undefined if the last one succeeded. */
    awaySince: (): number | undefined => away?.since,
    assertThere(): void {
      if (away) throw away.error;
    },
    /** Renews immediately, or joins a renewal in flight. Never rejects. */
    renew,
    /**
     * For an account whose lease has run out by this process's clock: asks the database whose it is. False: another's. While
     * the database is away the account counts as held, as the others can't take it either.
     */
    async confirm(account: string): Promise<boolean> {
      // A joined renewal may have started before this process was paused.
      for (let time = 0; time < 2; time += 1) {
        if (isSurelyAway() || !isHeld(account) || replicas.remaining(account) > 0) break;
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
    /** Accounts to close and release. `lost`: another replica may hold them. */
    leaving: (): ReadonlyMap<string, 'lost' | 'excess'> => leaving,
    /** Releases closed or lost accounts. If that fails, a later renewal retries it. */
    async giveBack(accounts: readonly string[]): Promise<void> {
      for (const account of accounts) {
        leaving.delete(account);
        closed.add(account);
      }
      await releaseClosed();
    },
    /** Releases an account that failed to open. This replica retries after `ms` milliseconds. */
    async refuse(account: string, ms: number): Promise<void> {
      refused.set(account, clock.monotonic() + ms);
      if (held.delete(account)) closed.add(account);
      else if (leaving.delete(account)) closed.add(account);
      await releaseClosed();
    },
    /** Aborted some seconds into a shutdown, so that an unresponsive database does not delay it. */
    patience: patience.signal,
    /** Acquires no further accounts and keeps renewing. Requests to the database are aborted after a few seconds. */
    drain(): void {
      if (isDraining) return;
      isDraining = true;
      void limit(patience, LAST_SAVE);
    },
    /** Releases all accounts and leaves, so that other replicas need not wait for the leases to end. Never rejects. */
    async close(): Promise<void> {
      isDraining = true;
      const last = new AbortController();
      void limit(last, LAST_RELEASE);
      const renewed = Promise.all([loops.close(), running]);
      async function leave(): Promise<void> {
        // An unresponsive renewal would delay the shutdown.
        if (!away) await renewed;
        for (const account of [...held, ...leaving.keys()]) closed.add(account);
        held.clear();
        leaving.clear();
        if (away) throw away.error;
        await replicas.release([...closed]);
        await replicas.leave();
      }
      try {
        await unlessAborted(leave(), last.signal);
      } catch (error) {
        const fields = { accounts: closed.size, error: String(error) };
        log.warn(fields, 'the accounts could not be given back: other replicas take them when the leases end');
      } finally {
        ended.abort();
      }
    },
  };
}

const isTelling = (error: unknown) =>
  error instanceof StoreError && !['invalid', 'guard_failed', 'closed'].includes(error.reason);

/**
 * The store, which after a refused commit first finds out whether the account is lost or the database is unavailable. While
 * it is unavailable, only lease requests are sent, so that no round or stop waits for it.
 */
export function telling(store: Store, holding: Pick<Holding, 'isAway' | 'renew' | 'assertThere' | 'patience'>): Store {
  const { patience } = holding;
  function ask<T>(what: () => Promise<T>): Promise<T> {
    holding.assertThere();
    patience.throwIfAborted();
    return unlessAborted(what(), patience);
  }
  return {
    ...store,
    scan: async (...which) => ask(() => store.scan(...which)),
    sizes: async (...which) => ask(() => store.sizes(...which)),
    valuesOf: async key => ask(() => store.valuesOf(key)),
    create: async (...which) => ask(() => store.create(...which)),
    async commit(...what) {
      holding.assertThere();
      try {
        await ask(() => store.commit(...what));
      } catch (error) {
        if (patience.aborted) throw error;
        if (isNotHeld(error) || (isTelling(error) && !holding.isAway())) await holding.renew();
        throw error;
      }
    },
  };
}
