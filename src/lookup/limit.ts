import type { Clock } from '../kit/clock.ts';
import { DAY, MINUTE } from '../kit/duration.ts';
import type { Budget } from '../upstream/budget.ts';
import { type BudgetOptions, maxForReading } from '../upstream/options.ts';

/** Maximum number of requests per minute and account for look-ups by the API and the pages. */
export const MAX_PER_MINUTE = 20;
/** Share of a day's requests that these look-ups may use, so that a browser cannot use up the budget. */
const DAILY_SHARE = 0.1;

/** Thrown if a look-up must not send another request yet. */
export class LookupLimitError extends Error {
  override readonly name = 'LookupLimitError';
  /** Time until a request may be allowed (ms). */
  readonly retryAfter: number;

  constructor(message: string, retryAfter: number) {
    super(message);
    this.retryAfter = retryAfter;
  }
}

/** Limits requests of priority `browser` and runs them as `background`. Every attempt counts. */
export function limitLookups(
  budget: Budget,
  { requestsPerDay }: Pick<BudgetOptions, 'requestsPerDay'>,
  clock: Clock,
): Budget {
  const maxPerDay = Math.max(1, Math.floor(requestsPerDay * DAILY_SHARE));
  const forReading = maxForReading({ requestsPerDay });
  /** Monotonic times of look-up requests in the last minute. */
  let recent: number[] = [];
  let today = { day: 0, requests: 0 };

  function take(): void {
    const now = clock.monotonic();
    const { day, requests } = budget.spent();
    if (today.day !== day) today = { day, requests: 0 };
    const untilMidnight = DAY - (clock.now() % DAY);
    if (requests >= forReading)
      throw new LookupLimitError('the daily request budget is used up until 00:00 UTC', untilMidnight);
    if (today.requests >= maxPerDay)
      throw new LookupLimitError(`look-ups have used their ${maxPerDay} requests of this UTC day`, untilMidnight);
    recent = recent.filter(time => time > now - MINUTE);
    const [oldest] = recent;
    if (oldest !== undefined && recent.length >= MAX_PER_MINUTE) {
      const message = `look-ups may use ${MAX_PER_MINUTE} requests per minute`;
      throw new LookupLimitError(message, oldest + MINUTE - now);
    }
    recent.push(now);
    today.requests += 1;
  }

  return {
    ...budget,
    async run(priority, signal, work) {
      if (priority !== 'browser') return budget.run(priority, signal, work);
      take();
      return budget.run('background', signal, work);
    },
  };
}
