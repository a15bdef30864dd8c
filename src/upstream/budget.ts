import type { Clock } from '../kit/clock.ts';
import type { Call, Priority } from './call.ts';
import { UpstreamError } from './errors.ts';

/** What one account may cost. */
export interface BudgetOptions {
  readonly requestsPerSecond: number;
  /** Requests that may go at once after a quiet time. */
  readonly burst: number;
  /** Requests under way at the same time. */
  readonly concurrency: number;
  /** Requests in one UTC day; the count starts anew with the process. */
  readonly requestsPerDay: number;
}

/** One account's share of the service, the same for everything that calls on its behalf. */
export interface Budget {
  /**
   * Runs `work` when it is this caller's turn: by priority, then first come first served.
   * Throws UpstreamError `refused` when the day's requests are used up, and the signal's reason when that is aborted first.
   */
  run<T>(priority: Priority, signal: AbortSignal, work: () => Promise<T>): Promise<T>;
  /** Requests left of this UTC day's. */
  remaining(): number;
}

const DAY = 86_400_000;
const RANK: Readonly<Record<Priority, number>> = { high: 0, normal: 1, low: 2 };

interface Waiter {
  readonly rank: number;
  readonly since: number;
  start(): void;
}

export function createBudget(options: BudgetOptions, clock: Clock, onWait: (seconds: number) => void): Budget {
  const waiting: Waiter[] = [];
  let tokens = options.burst;
  let refilledAt = clock.monotonic();
  let underWay = 0;
  let day = Math.floor(clock.now() / DAY);
  let usedToday = 0;
  let refilling = false;

  function refill(): void {
    const now = clock.monotonic();
    tokens = Math.min(options.burst, tokens + ((now - refilledAt) / 1000) * options.requestsPerSecond);
    refilledAt = now;
    const today = Math.floor(clock.now() / DAY);
    if (today !== day) {
      day = today;
      usedToday = 0;
    }
  }

  function startWhoMay(): void {
    refill();
    while (waiting.length > 0 && underWay < options.concurrency && tokens >= 1) {
      tokens -= 1;
      underWay += 1;
      waiting.shift()?.start();
    }
    if (waiting.length > 0 && underWay < options.concurrency && !refilling) {
      refilling = true;
      // Never aborted and never long: at most one token's time.
      void clock.sleep(Math.max(1, ((1 - tokens) / options.requestsPerSecond) * 1000)).then(() => {
        refilling = false;
        startWhoMay();
      });
    }
  }

  function turn(priority: Priority, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const onAbort = () => {
        waiting.splice(waiting.indexOf(waiter), 1);
        reject(signal.reason);
      };
      const waiter: Waiter = {
        rank: RANK[priority],
        since: clock.monotonic(),
        start() {
          signal.removeEventListener('abort', onAbort);
          onWait((clock.monotonic() - waiter.since) / 1000);
          resolve();
        },
      };
      signal.addEventListener('abort', onAbort, { once: true });
      const behind = waiting.findIndex(other => other.rank > waiter.rank);
      waiting.splice(behind === -1 ? waiting.length : behind, 0, waiter);
      startWhoMay();
    });
  }

  return {
    async run(priority, signal, work) {
      refill();
      if (usedToday >= options.requestsPerDay) {
        throw new UpstreamError(
          'refused',
          `the budget of ${options.requestsPerDay} requests is used up until 00:00 UTC`,
        );
      }
      usedToday += 1;
      try {
        await turn(priority, signal);
      } catch (aborted) {
        usedToday -= 1;
        throw aborted;
      }
      try {
        return await work();
      } finally {
        underWay -= 1;
        startWhoMay();
      }
    },
    remaining() {
      refill();
      return Math.max(0, options.requestsPerDay - usedToday);
    },
  };
}

/** Each request waits for its turn in the account's budget. */
export const withBudget =
  (budget: Budget) =>
  (call: Call): Call =>
  (request, headers) =>
    budget.run(request.priority, request.signal, () => call(request, headers));
