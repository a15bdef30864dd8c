import { type Backoff, backoffDelay } from '../kit/backoff.ts';
import type { AgentBase } from './parts.ts';

export interface AccountFailure {
  readonly error: unknown;
  /** Time of the first of the consecutive failures (ms since the Unix epoch). */
  readonly since: number;
  readonly count: number;
  /** Time of the next attempt (monotonic clock). */
  readonly retryAt: number;
}

/** Delay before a failed account is retried (ms). */
const RETRY: Backoff = { first: 30_000, longest: 600_000 };

/** Tracks accounts that failed to open, configure or save, and schedules retries. */
export class AccountFailures {
  readonly #deps: Pick<AgentBase, 'clock' | 'random' | 'log'>;
  readonly #failures = new Map<string, AccountFailure>();

  constructor(deps: Pick<AgentBase, 'clock' | 'random' | 'log'>) {
    this.#deps = deps;
  }

  get accounts(): readonly string[] {
    return [...this.#failures.keys()];
  }

  /** Returns the current failure of an account; undefined if its last attempt succeeded. */
  of(account: string): AccountFailure | undefined {
    return this.#failures.get(account);
  }

  note(account: string, error: unknown, message: string): number {
    const { random, clock, log } = this.#deps;
    const { count: before = 0, since = clock.now() } = this.#failures.get(account) ?? {};
    const count = before + 1;
    const ms = backoffDelay(RETRY, count, random);
    this.#failures.set(account, { error, since, count, retryAt: clock.monotonic() + ms });
    log.error({ account, error: String(error), seconds: Math.round(ms / 1000) }, message);
    return ms;
  }

  isDue(account: string): boolean {
    return (this.#failures.get(account)?.retryAt ?? 0) <= this.#deps.clock.monotonic();
  }

  /** Makes an account due as soon as its lease is acquired, because the acquisition is delayed instead. */
  ignoreDelay(account: string): void {
    const failure = this.#failures.get(account);
    if (failure) this.#failures.set(account, { ...failure, retryAt: 0 });
  }

  delete(account: string): void {
    this.#failures.delete(account);
  }

  /** Makes all failed accounts due now and resets their delays. */
  retryAll(): void {
    for (const [account, failure] of this.#failures) this.#failures.set(account, { ...failure, count: 0, retryAt: 0 });
  }
}
