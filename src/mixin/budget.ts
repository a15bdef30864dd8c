import { highestOf } from '../alerts/promql.ts';
import { formatDuration } from '../kit/duration.ts';
import type { Objectives } from '../metrics/objectives.ts';
import { budget, inReplica } from './message-records.ts';
import { recorded } from './queries.ts';

/** What the error budget is counted over. */
export const windowOf = ({ window }: Objectives) =>
  `Of the last ${formatDuration(window)} up to the last full hour, or as long as Prometheus keeps data: the table says how long that is. Below 0 the objective is missed.`;

/**
 * A record of the objective's window, hour by hour. It holds what a replica counted when it caught up, too: no message is left
 * out because the agent was blind.
 */
const hourly = (count: 'failed' | 'finished', { window }: Objectives) =>
  `(${highestOf(recorded(inReplica(count, '1h'), { instance: /$instance/ }))})[${formatDuration(window)}:1h]`;

/** Which share of its error budget each account has left. */
export const budgetLeft = (objectives: Objectives) => {
  const [failed, finished] = (['failed', 'finished'] as const).map(count => hourly(count, objectives));
  return `1 - sum_over_time(${failed}) / (sum_over_time(${finished}) > 0) / ${highestOf(recorded(budget('delivered')))}`;
};

/** Over how many days of data that is. */
export const budgetDays = (objectives: Objectives) => `count_over_time(${hourly('finished', objectives)}) / 24`;
