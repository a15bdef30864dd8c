import { unlessAborted } from '../kit/clock.ts';
import type { Runtime } from '../kit/runtime.ts';
import { createLoops, type Loops } from '../scheduler/loop.ts';
import { StoreError } from '../store/errors.ts';
import type { LeaderLease } from '../store/store.ts';

export interface LeadershipEvents {
  /** Called once, when this process has acquired the lease. */
  won(): void;
  /** Called once, synchronously: another process may run everything already. */
  lost(): void;
}

export interface LeadershipDeps extends Pick<Runtime, 'clock' | 'random' | 'log'> {
  readonly lease: LeaderLease;
  /** Counts the attempts to renew or to acquire the lease. */
  readonly renewed?: (outcome: 'ok' | 'failed') => void;
}

/** Numbers of renewals by the leader and of attempts by a standby within the lease time. */
const [RENEWALS, POLLS] = [5, 15];

/** Time limits of a shutdown while the database does not respond (ms): for saving, then for releasing the lease. */
const [LAST_SAVE, LAST_RELEASE] = [4000, 2000];

/**
 * Whether this process leads its group.
 *
 * | phase     | this process                                | next phase, and when |
 * | --------- | ------------------------------------------- | -------------------- |
 * | `standby` | tries to acquire the lease every second     | `leader`, when the lease is free |
 * | `leader`  | renews the lease and runs everything        | `lost`, when the lease has another epoch |
 * | `lost`    | sends and writes nothing; the process ends  | – |
 *
 * While the database is unavailable, the phase does not change.
 */
export class Leadership {
  readonly self: LeaderLease['self'];
  readonly #deps: LeadershipDeps;
  readonly #loops: Loops;
  readonly #shutdown = new AbortController();
  readonly #ended = new AbortController();
  #phase: 'standby' | 'leader' | 'lost' = 'standby';
  #events: LeadershipEvents | undefined;
  #outage: { readonly since: number; failedAt: number; error: unknown } | undefined;
  #renewedAt = Number.NEGATIVE_INFINITY;
  #running: Promise<void> | undefined;
  #isDraining = false;

  constructor(deps: LeadershipDeps) {
    this.self = deps.lease.self;
    this.#deps = deps;
    this.#loops = createLoops(deps);
  }

  isLeading = (): boolean => this.#phase === 'leader';

  /** Returns the leader that this process last read, with the time since that leader renewed its lease (ms). */
  leader = (): ReturnType<LeaderLease['leader']> => this.#deps.lease.leader();

  /** Returns the remaining lease time by the monotonic clock (ms); 0 if the lease may have expired. */
  remaining = (): number => (this.isLeading() ? this.#deps.lease.remaining() : 0);

  /**
   * Whether this process leads, and either its lease is valid by the monotonic clock or the database is unavailable. Wrongly true
   * after the machine was suspended, which stops the monotonic clock. That is safe, because the database checks the epoch of
   * commits and cancels.
   */
  isCurrent = (): boolean => this.isLeading() && (this.#outage !== undefined || this.remaining() > 0);

  /** Whether the last renewal failed: another process may lead. */
  isUnavailable = (): boolean => this.#outage !== undefined;

  /** Returns the time of the first failed renewal (ms since the Unix epoch); undefined if the last renewal succeeded. */
  unavailableSince = (): number | undefined => this.#outage?.since;

  /** Aborted a few seconds after `drain`, so that an unresponsive database does not delay the shutdown. */
  get shutdownSignal(): AbortSignal {
    return this.#shutdown.signal;
  }

  assertAvailable(): void {
    if (this.#outage) throw this.#outage.error;
  }

  start(events: LeadershipEvents): void {
    const { lease, clock } = this.#deps;
    const every = lease.leaseTime / POLLS;
    this.#events = events;
    void this.#loops.start(every, 0, async () => {
      // A leader renews less often than a standby checks the lease. The tolerance covers timers that fire early.
      const next = this.#renewedAt + lease.leaseTime / RENEWALS - every / 2;
      if (!this.isLeading() || clock.monotonic() >= next) await this.renew();
    });
  }

  /** Renews immediately, or joins a renewal in flight. Never rejects. */
  renew = async (): Promise<void> => {
    if (this.#phase === 'lost' || (this.#isDraining && this.#phase === 'standby')) return;
    this.#running ??= this.#attempt().finally(() => {
      this.#running = undefined;
    });
    await this.#running;
  };

  /** Renews an expired lease, and returns whether this process leads. A database outage does not end the leadership. */
  confirm = async (): Promise<boolean> => {
    // Try twice: the first call may join a renewal that started before this process was paused.
    for (let time = 0; time < 2; time += 1) {
      if (this.#isCertainlyUnavailable() || !this.isLeading() || this.remaining() > 0) break;
      await this.renew();
    }
    return this.isCurrent();
  };

  /** Prepares the shutdown: a leader keeps its lease, and a standby no longer tries to acquire it. */
  drain(): void {
    if (this.#isDraining) return;
    this.#isDraining = true;
    void this.#limit(this.#shutdown, LAST_SAVE);
  }

  /** Releases the lease, so that a standby need not wait until it expires. Never rejects. */
  close = async (): Promise<void> => {
    this.#isDraining = true;
    const last = new AbortController();
    void this.#limit(last, LAST_RELEASE);
    try {
      await unlessAborted(this.#release(), last.signal);
    } catch (error) {
      const { log } = this.#deps;
      log.warn({ error: String(error) }, 'failed to release the lease: a standby acquires it when it expires');
    } finally {
      this.#ended.abort();
    }
  };

  async #release(): Promise<void> {
    const renewed = Promise.all([this.#loops.close(), this.#running]);
    // An unresponsive renewal would delay the shutdown.
    if (!this.#outage) await renewed;
    if (this.isLeading()) this.assertAvailable();
    await this.#deps.lease.release();
  }

  async #attempt(): Promise<void> {
    const { lease, clock, renewed } = this.#deps;
    const since = clock.monotonic();
    let phase: Awaited<ReturnType<LeaderLease['renew']>>;
    try {
      phase = await lease.renew();
    } catch (error) {
      renewed?.('failed');
      // Statements time out within the lease time: a longer wait shows that this process was paused.
      if (clock.monotonic() - since < lease.leaseTime) this.#failed(error);
      return;
    }
    renewed?.('ok');
    this.#renewedAt = since;
    this.#succeeded();
    this.#enter(phase);
  }

  #enter(phase: Awaited<ReturnType<LeaderLease['renew']>>): void {
    const { log } = this.#deps;
    if (phase === this.#phase) return;
    this.#phase = phase;
    if (phase === 'lost') {
      log.error({}, 'another process leads: this one ends');
      this.#events?.lost();
    } else {
      log.info({ url: this.self.url }, 'this process leads now');
      this.#events?.won();
    }
  }

  #failed(error: unknown): void {
    const { clock, log } = this.#deps;
    const failedAt = clock.monotonic();
    if (this.#outage) {
      Object.assign(this.#outage, { failedAt, error });
      return;
    }
    this.#outage = { since: clock.now(), failedAt, error };
    log.warn(
      { error: String(error) },
      this.isLeading()
        ? 'database unavailable: polling continues, counters are frozen, auto-cancel is suspended'
        : 'database unavailable: this standby cannot take over',
    );
  }

  #succeeded(): void {
    if (!this.#outage) return;
    const { clock, log } = this.#deps;
    const seconds = Math.round((clock.now() - this.#outage.since) / 1000);
    this.#outage = undefined;
    log.info({ seconds }, 'database available again');
  }

  /** Whether a renewal failed so recently that another attempt would only delay requests. */
  #isCertainlyUnavailable(): boolean {
    const { lease, clock } = this.#deps;
    return this.#outage !== undefined && clock.monotonic() - this.#outage.failedAt < (lease.leaseTime * 2) / 3;
  }

  /** Aborts a controller after `ms`, unless the shutdown completes earlier. */
  async #limit(controller: AbortController, ms: number): Promise<void> {
    try {
      await this.#deps.clock.sleep(ms, this.#ended.signal);
    } catch {
      return;
    }
    controller.abort(new StoreError('slow', 'the store', 'this process ends'));
  }
}
