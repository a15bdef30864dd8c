import { type Clock, withDeadline } from '../kit/clock.ts';
import { DAY } from '../kit/duration.ts';
import { UpstreamError } from './errors.ts';
import { type BudgetOptions, maxForReading } from './options.ts';
import { type Call, PRIORITIES, type Priority } from './send.ts';

export type Budget = ReturnType<typeof createBudget>;

export interface DailyUsage {
  /** UTC days since the Unix epoch. */
  readonly day: number;
  readonly requests: number;
}

/** Maximum wait that the service can request (ms). */
export const MAX_PAUSE = 900_000;
/** Longest remaining pause that a request waits for (ms). During a longer one, requests fail at once. */
const MAX_DELAY = 30_000;
/** A request runs before one of the next lower priority, unless the latter has waited this much longer (ms). */
const AGING_MS = 5000;

interface Waiter {
  readonly rank: number;
  readonly since: number;
  start(): void;
  refuse(error: UpstreamError): void;
}

/** Queues requests that wait for the budget. `onEmpty` is called when the last waiting request is aborted. */
function createQueue(clock: Clock, onWait: (seconds: number) => void, onEmpty: () => void) {
  const waiting: Waiter[] = [];

  function first(): number {
    let best = 0;
    let bestTurn = Number.POSITIVE_INFINITY;
    for (const [index, { rank, since }] of waiting.entries()) {
      // Waiting raises the priority, so that no request starves. Actions always come first.
      const turn = rank === 0 ? Number.NEGATIVE_INFINITY : since + rank * AGING_MS;
      if (turn >= bestTurn) continue;
      best = index;
      bestTurn = turn;
    }
    return best;
  }

  return {
    isEmpty: () => waiting.length === 0,
    startFirst: () => waiting.splice(first(), 1)[0]?.start(),
    refuseAll(error: UpstreamError): void {
      for (const waiter of waiting.splice(0)) waiter.refuse(error);
    },
    add: (priority: Priority, signal: AbortSignal): Promise<void> =>
      new Promise((resolve, reject) => {
        const onAbort = () => {
          waiting.splice(waiting.indexOf(waiter), 1);
          if (waiting.length === 0) onEmpty();
          reject(signal.reason);
        };
        const waiter: Waiter = {
          rank: PRIORITIES.indexOf(priority),
          since: clock.monotonic(),
          start() {
            signal.removeEventListener('abort', onAbort);
            onWait((clock.monotonic() - waiter.since) / 1000);
            resolve();
          },
          refuse(error) {
            signal.removeEventListener('abort', onAbort);
            reject(error);
          },
        };
        signal.addEventListener('abort', onAbort, { once: true });
        waiting.push(waiter);
      }),
  };
}

/** Counts the requests of the current UTC day. */
function createDay({ requestsPerDay, requestsPerSecond }: BudgetOptions, clock: Clock, before?: DailyUsage) {
  const forReading = maxForReading({ requestsPerDay });
  // The earlier process's clock may have been ahead: continue its day, as if this clock had been set back.
  let day = Math.max(Math.floor(clock.now() / DAY), before?.day ?? 0);
  let used = before?.day === day ? before.requests : 0;
  return {
    update(): void {
      // Setting the wall clock back must not grant the day's requests twice.
      const today = Math.floor(clock.now() / DAY);
      if (today > day) used = 0;
      // If the clock was once far ahead, the budget would otherwise stay used up until that date.
      if (today > day || today < day - 1) day = today;
    },
    /** Returns the refill rate (tokens per ms): below the configured rate if the day's requests would run out early. */
    rate: () => Math.min(requestsPerSecond / 1000, Math.max(1, forReading - used) / (DAY - (clock.now() % DAY))),
    take(priority: Priority): void {
      const max = priority === 'action' ? requestsPerDay : forReading;
      if (used >= max) {
        throw new UpstreamError('refused', `the daily budget of ${max} requests is used up until 00:00 UTC`);
      }
      used += 1;
    },
    refund(): void {
      used = Math.max(0, used - 1);
    },
    remaining: () => Math.max(0, requestsPerDay - used),
    spent: (): DailyUsage => ({ day, requests: used }),
  };
}

/** Creates the request budget of an account. `before`: usage counted by an earlier process. */
export function createBudget(
  options: BudgetOptions,
  clock: Clock,
  onWait: (seconds: number) => void,
  before?: DailyUsage,
) {
  const day = createDay(options, clock, before);
  let tokens = options.burst;
  let refilledAt = clock.monotonic();
  let inFlight = 0;
  let pausedUntil = Number.NEGATIVE_INFINITY;
  /** Aborted when the queue is empty, because a wait for the next token would keep the process alive. */
  let refilling: AbortController | undefined;
  const queue = createQueue(clock, onWait, () => {
    refilling?.abort();
    refilling = undefined;
  });

  function refill(): void {
    day.update();
    const now = clock.monotonic();
    tokens = Math.min(options.burst, tokens + (now - refilledAt) * day.rate());
    refilledAt = now;
  }

  const pauseLeft = () => Math.max(0, pausedUntil - clock.monotonic());

  function longPause(): UpstreamError | undefined {
    const left = pauseLeft();
    if (left <= MAX_DELAY) return undefined;
    const message = `the service asked to wait ${Math.ceil(left / 1000)} s more`;
    return new UpstreamError('rate_limited', message, { retryAfter: left });
  }

  const untilNextToken = () => Math.max(pauseLeft(), (1 - tokens) / day.rate());

  function wakeForNextToken(): void {
    if (refilling) return;
    refilling = new AbortController();
    clock.sleep(Math.min(Math.max(1, untilNextToken()), DAY), refilling.signal).then(
      () => {
        refilling = undefined;
        startNext();
      },
      () => undefined,
    );
  }

  function startNext(): void {
    refill();
    while (!queue.isEmpty() && inFlight < options.concurrency && tokens >= 1 && pauseLeft() === 0) {
      tokens -= 1;
      inFlight += 1;
      queue.startFirst();
    }
    if (!queue.isEmpty() && inFlight < options.concurrency) wakeForNextToken();
  }

  return {
    /**
     * Runs `work` in its turn: by priority with aging, then first come, first served. Throws UpstreamError `refused` if the
     * day's requests are used up (a tenth is reserved for `action`), `rate_limited` during a long pause, or the signal's reason.
     */
    async run<T>(priority: Priority, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
      refill();
      const tooLong = longPause();
      day.take(priority);
      try {
        if (tooLong) throw tooLong;
        signal.throwIfAborted();
        const turn = queue.add(priority, signal);
        startNext();
        await turn;
      } catch (notStarted) {
        day.refund();
        throw notStarted;
      }
      try {
        return await work();
      } finally {
        inFlight -= 1;
        startNext();
      }
    },
    /** Pauses all requests for `ms` milliseconds, at most `MAX_PAUSE`, as the service has requested. */
    pause(ms: number): void {
      pausedUntil = Math.max(pausedUntil, clock.monotonic() + Math.min(ms, MAX_PAUSE));
      const tooLong = longPause();
      if (tooLong) queue.refuseAll(tooLong);
    },
    /** Returns the time until a waiting request may start (ms). If none waits, returns the remainder of a pause, or 0. */
    wait(): number {
      refill();
      return queue.isEmpty() ? pauseLeft() : Math.max(0, untilNextToken());
    },
    /** Returns the remaining requests of this UTC day, including the reserve for actions. */
    remaining(): number {
      refill();
      return day.remaining();
    },
    spent(): DailyUsage {
      refill();
      return day.spent();
    },
  };
}

/** Makes each request wait for the budget. A retry waits at most for the remaining time of its request. */
export const withBudget =
  (budget: Budget) =>
  (call: Call): Call =>
  (request, headers) => {
    const run = (waiting: AbortSignal) =>
      budget.run(request.priority, waiting, async () => {
        try {
          const response = await call(request, headers);
          if (response.wait !== undefined) budget.pause(response.wait);
          return response;
        } catch (error) {
          if (error instanceof UpstreamError && error.retryAfter !== undefined) budget.pause(error.retryAfter);
          throw error;
        }
      });
    const left = request.time?.left();
    return left === undefined ? run(request.signal) : withDeadline(left, request.signal, run);
  };
