import { enabledRounds } from '../collectors/index.ts';
import { mostForReading } from '../upstream/options.ts';
import type { Config } from './schema.ts';

const DAY = 86_400_000;

/**
 * Requests a day that watching an account costs at least: those of rounds that find nothing new in lists of one page. That
 * includes the complete walks of the dead-letter queue and of each filter. What it really costs, only the service can tell.
 */
export function leastRequestsPerDay({ collect }: Pick<Config['accounts'][number], 'collect'>): number {
  return [...enabledRounds(collect).values()]
    .flatMap(rounds => Object.values(rounds))
    .reduce((sum, { every, requests }) => sum + (DAY / every) * requests, 0);
}

/** What is said of a budget that can't pay for the least; undefined when it can. */
export function overBudget(account: Config['accounts'][number]): string | undefined {
  const { budget } = account;
  const most = Math.floor(Math.min(mostForReading(budget), (budget.requestsPerSecond * DAY) / 1000));
  const least = Math.ceil(leastRequestsPerDay(account));
  if (least <= most) return undefined;
  return `reading takes at least ${least} requests a day, even with no new data and one page per list, but the budget allows ${most} for reading: rounds will wait, and data will be older than configured`;
}
