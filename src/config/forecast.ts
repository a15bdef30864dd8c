import { type Cadence, collectors } from '../collectors/index.ts';
import type { Config } from './schema.ts';

const DAY = 86_400_000;

/** Requests a day that watching an account costs at least: those of rounds that find nothing new. */
export function leastRequestsPerDay({ collect }: Pick<Config['accounts'][number], 'collect'>): number {
  return collectors
    .flatMap(({ configKey, rounds }): Cadence[] => {
      const options = collect[configKey];
      return options?.enabled ? Object.values(rounds(options)) : [];
    })
    .reduce((sum, { every, requests }) => sum + (DAY / every) * requests, 0);
}

/** What is said of a budget that can't pay for the least; undefined when it can. */
export function overBudget(account: Config['accounts'][number]): string | undefined {
  const { requestsPerDay, requestsPerSecond } = account.budget;
  const most = Math.min(requestsPerDay, (requestsPerSecond * DAY) / 1000);
  const least = Math.ceil(leastRequestsPerDay(account));
  if (least <= most) return undefined;
  return `watching costs at least ${least} requests a day, and the budget allows ${Math.floor(most)}: rounds will wait, and data will be older than configured`;
}
