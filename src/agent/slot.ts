import { type Backoff, backoffDelay } from '../kit/backoff.ts';
import { createSession, type Session } from '../replicas/session.ts';
import { type AgentBase, waitUntilSaved } from './base.ts';
import type { Prepared, Tenant } from './prepared.ts';

export interface SlotFailure {
  readonly error: unknown;
  /** Time of the first of the consecutive failures (ms since the Unix epoch). */
  readonly since: number;
  readonly count: number;
  /** Time of the next attempt (monotonic clock). */
  readonly retryAt: number;
}

export interface SlotDeps<T extends Tenant> {
  readonly base: AgentBase;
  /** Opens the tenant from its stored rows, without sending requests. `last`: its closed predecessor. */
  open(session: Session, prepared: Prepared, last: T | undefined): Promise<T>;
  /** Called when the tenant runs. */
  opened(tenant: T): void;
  /** Called when the state, the tenant or the failure has changed. */
  changed(): void;
  readonly stopping: AbortSignal;
}

/** Delay before a failed slot is retried (ms). */
const RETRY: Backoff = { first: 30_000, longest: 600_000 };

/**
 * Runs one account, or the agent-wide part. At most one session of a slot sends, commits or notifies.
 *
 * | state     | the slot                                        | next state, and when |
 * | --------- | ----------------------------------------------- | -------------------- |
 * | `absent`  | runs nothing; may still show its predecessor    | `opening`, when this process leads |
 * | `opening` | reads rows; sends nothing                       | `running`, or `failed` |
 * | `running` | has the only valid session                      | `closing`, when settings for reading change or the account is removed |
 * | `closing` | ends requests and saves, then ends the session  | `absent`; `running`, if a changed account cannot be saved |
 * | `failed`  | runs nothing; shows the error                   | `opening`, at `retryAt` or after a reload |
 *
 * If saving or configuring a tenant fails, the slot stays `running` and tries again at `retryAt`.
 */
export class Slot<T extends Tenant> {
  readonly name: string;
  readonly #deps: SlotDeps<T>;
  #state: 'absent' | 'opening' | 'running' | 'closing' | 'failed' = 'absent';
  #session: Session | undefined;
  #tenant: T | undefined;
  #last: T | undefined;
  #failure: SlotFailure | undefined;

  constructor(name: string, deps: SlotDeps<T>) {
    this.name = name;
    this.#deps = deps;
  }

  /** The running tenant, until its session has ended. */
  get tenant(): T | undefined {
    return this.#tenant;
  }

  /** The closed predecessor while no tenant runs. Its data is still shown. */
  get last(): T | undefined {
    return this.#last;
  }

  /** The current failure; undefined if the last attempt succeeded. */
  get failure(): SlotFailure | undefined {
    return this.#failure;
  }

  /** Whether an attempt to open a tenant, or a retry, is due. */
  get isDue(): boolean {
    const isWaiting = this.#state === 'absent' || this.#failure !== undefined;
    return isWaiting && (this.#failure?.retryAt ?? 0) <= this.#deps.base.clock.monotonic();
  }

  /** Makes a failed slot due now and resets its delay. */
  retry(): void {
    if (this.#failure) this.#failure = { ...this.#failure, count: 0, retryAt: 0 };
  }

  /** Stops auto-cancel unless it may continue with this configuration. `isWanted`: whether `prepared` contains the slot. */
  async stopActing(prepared: Prepared, isWanted: boolean): Promise<void> {
    const tenant = this.#tenant;
    if (!tenant || (isWanted && tenant.keepsReading(prepared) && tenant.keepsAutoCancel(prepared))) return;
    await tenant.stopAutoCancel();
  }

  /** Closes a tenant that may not continue. If it cannot be saved and is still wanted, it keeps running. */
  async close(prepared: Prepared, isWanted: boolean): Promise<void> {
    const tenant = this.#tenant;
    if (!tenant || (isWanted && (tenant.keepsReading(prepared) || this.#isDelayed()))) return;
    this.#state = 'closing';
    if (isWanted) {
      try {
        await tenant.save();
      } catch (error) {
        this.#state = 'running';
        this.#fail(error, 'failed to save account; it keeps its settings, retrying later');
        return;
      }
    }
    await tenant.stop();
    await waitUntilSaved([tenant.save()], this.#deps.base);
    this.#session?.revoke();
    [this.#state, this.#tenant, this.#last] = ['absent', undefined, isWanted ? tenant : undefined];
    this.#deps.changed();
  }

  /** Configures a running tenant, unless it has this configuration. Never rejects. */
  async configure(prepared: Prepared): Promise<void> {
    const tenant = this.#tenant;
    if (tenant && !tenant.isConfigured(prepared) && !this.#isDelayed()) await this.#configure(tenant, prepared);
  }

  /** Opens a missing tenant. Never rejects. */
  async open(prepared: Prepared): Promise<void> {
    const { base, open, opened, stopping } = this.#deps;
    if (this.#tenant || this.#isDelayed() || stopping.aborted) return;
    this.#state = 'opening';
    const session = createSession(this.name, base.storeFor, base.leadership);
    this.#session = session;
    try {
      const tenant = await open(session, prepared, this.#last);
      this.#failure = undefined;
      // Show the predecessor's data until the tenant is configured.
      await this.#configure(tenant, prepared);
      if (session.isRevoked) {
        await tenant.stop();
        throw new Error('another process leads');
      }
      [this.#state, this.#tenant, this.#last] = ['running', tenant, undefined];
      opened(tenant);
    } catch (error) {
      await this.#openFailed(session, error);
    }
    this.#deps.changed();
  }

  /** Ends all requests. The session may still save. */
  async stop(): Promise<void> {
    if (!this.#tenant) this.#session?.revoke();
    await this.#tenant?.stop();
  }

  /** Ends the session at once, because another process may already lead. */
  revoke(): void {
    this.#session?.revoke();
    void this.#tenant?.stop();
  }

  async #openFailed(session: Session, error: unknown): Promise<void> {
    const { base, stopping } = this.#deps;
    session.revoke();
    this.#state = 'absent';
    if (stopping.aborted) return;
    await base.leadership?.renew();
    // The database is unavailable: the supervisor opens the slot once it responds again.
    if (base.leadership?.isUnavailable()) return;
    this.#state = 'failed';
    this.#fail(error, 'failed to open account; retrying later');
  }

  async #configure(tenant: T, prepared: Prepared): Promise<void> {
    try {
      await tenant.configure(prepared);
      this.#failure = undefined;
    } catch (error) {
      this.#fail(error, 'failed to open a part of the account; retrying later');
    }
    this.#deps.changed();
  }

  #isDelayed(): boolean {
    return (this.#failure?.retryAt ?? 0) > this.#deps.base.clock.monotonic();
  }

  #fail(error: unknown, message: string): void {
    const { random, clock, log } = this.#deps.base;
    const { count: before = 0, since = clock.now() } = this.#failure ?? {};
    const count = before + 1;
    const ms = backoffDelay(RETRY, count, random);
    this.#failure = { error, since, count, retryAt: clock.monotonic() + ms };
    log.error({ account: this.name, error: String(error), seconds: Math.round(ms / 1000) }, message);
    this.#deps.changed();
  }
}
