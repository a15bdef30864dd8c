import { type Clock, withDeadline } from '../kit/clock.ts';
import { type Call, PRIORITIES, type Priority } from './call.ts';
import { UpstreamError } from './errors.ts';
import { type BudgetOptions, mostForReading } from './options.ts';

export type Budget = ReturnType<typeof createBudget>;

/** Requests of one UTC day, which is a number of days since the Unix epoch. */
export interface Spent {
  readonly day: number;
  readonly requests: number;
}

const DAY = 86_400_000;
/** Maximum wait that the service can request (ms). */
const LONGEST_PAUSE = 900_000;
/** Longer waits fail the request instead of delaying a round (ms). */
const LONGEST_HELD = 30_000;
/** A request goes before one of the next rank unless that has waited this much longer, milliseconds. */
const AGING_MS = 5000;

interface Waiter {
  readonly rank: number;
  readonly since: number;
  start(): void;
  refuse(error: UpstreamError): void;
}

/** Requests that wait for the budget. `onEmpty`: called when the last one was withdrawn. */
function createQueue(clock: Clock, onWait: (seconds: number) => void, onEmpty: () => void) {
  const waiting: Waiter[] = [];

  function first(): number {
    let best = 0;
    let bestTurn = Number.POSITIVE_INFINITY;
    for (const [index, { rank, since }] of waiting.entries()) {
      // No request starves: waiting raises its rank. Actions go before all.
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
    /** Resolves when the request may start. Rejects with the signal's reason. */
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

/** Requests of the current UTC day. `before`: those of an earlier process; they count if its day is today or later. */
function createDay({ requestsPerDay, requestsPerSecond }: BudgetOptions, clock: Clock, before?: Spent) {
  const forReading = mostForReading({ requestsPerDay });
  // The clock of the earlier process may have been ahead: its day continues, as when this clock is set back.
  let day = Math.max(Math.floor(clock.now() / DAY), before?.day ?? 0);
  let used = before?.day === day ? before.requests : 0;
  return {
    update(): void {
      // A wall clock that is set back must not return the day's requests twice.
      const today = Math.floor(clock.now() / DAY);
      if (today > day) used = 0;
      // A clock that was far ahead would block the budget until that day.
      if (today > day || today < day - 1) day = today;
    },
    /** Tokens per millisecond: fewer than allowed if the day's requests would not last the day. */
    rate: () => Math.min(requestsPerSecond / 1000, Math.max(1, forReading - used) / (DAY - (clock.now() % DAY))),
    /** Takes one request from the day's. Throws UpstreamError `refused` if they are used up. */
    take(priority: Priority): void {
      const most = priority === 'action' ? requestsPerDay : forReading;
      if (used >= most) {
        throw new UpstreamError('refused', `the daily budget of ${most} requests is used up until 00:00 UTC`);
      }
      used += 1;
    },
    giveBack(): void {
      used = Math.max(0, used - 1);
    },
    remaining: () => Math.max(0, requestsPerDay - used),
    spent: (): Spent => ({ day, requests: used }),
  };
}

/** `before`: requests of an earlier process. */
export function createBudget(options: BudgetOptions, clock: Clock, onWait: (seconds: number) => void, before?: Spent) {
  const day = createDay(options, clock, before);
  let tokens = options.burst;
  let refilledAt = clock.monotonic();
  let inFlight = 0;
  let pausedUntil = Number.NEGATIVE_INFINITY;
  /** Ends the wait for the next token once no request waits, so that nothing keeps the process alive. */
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

  /** Why no request may even wait now; undefined if requests may wait. */
  function longPause(): UpstreamError | undefined {
    const left = pauseLeft();
    if (left <= LONGEST_HELD) return undefined;
    const message = `the service asked to wait ${Math.ceil(left / 1000)} s more`;
    return new UpstreamError('rate_limited', message, { retryAfter: left });
  }

  function wakeForNextToken(): void {
    if (refilling) return;
    refilling = new AbortController();
    const ms = Math.max(1, pauseLeft(), (1 - tokens) / day.rate());
    clock.sleep(Math.min(ms, DAY), refilling.signal).then(
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
     * Runs `work` in turn: by priority with aging, then first come, first served. Throws UpstreamError `refused` if the daily
     * requests are used up (a tenth is reserved for `action`), `rate_limited` during a long wait that the service asked for,
     * and the signal's reason.
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
        day.giveBack();
        throw notStarted;
      }
      try {
        return await work();
      } finally {
        inFlight -= 1;
        startNext();
      }
    },
    /** Starts nothing for `ms` milliseconds, 15 minutes at most: the service asked for it. */
    pause(ms: number): void {
      pausedUntil = Math.max(pausedUntil, clock.monotonic() + Math.min(ms, LONGEST_PAUSE));
      const tooLong = longPause();
      if (tooLong) queue.refuseAll(tooLong);
    },
    /** Requests left of this UTC day's, those for actions included. */
    remaining(): number {
      refill();
      return day.remaining();
    },
    spent(): Spent {
      refill();
      return day.spent();
    },
  };
}

/** Each request waits for its turn. A wait requested by one response applies to all. A retry waits at most for the rest of its time. */
export const withBudget =
  (budget: Budget) =>
  (call: Call): Call =>
  (request, headers) => {
    const run = (waiting: AbortSignal) =>
      budget.run(request.priority, waiting, async () => {
        try {
          const answer = await call(request, headers);
          if (answer.wait !== undefined) budget.pause(answer.wait);
          return answer;
        } catch (error) {
          if (error instanceof UpstreamError && error.retryAfter !== undefined) budget.pause(error.retryAfter);
          throw error;
        }
      });
    const left = request.time?.left();
    return left === undefined ? run(request.signal) : withDeadline(left, request.signal, run);
  };
