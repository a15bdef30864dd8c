import { highestOf } from '../src/rules/promql.ts';
import { budget, inReplica } from './message-records.ts';
import { placeholder } from './placeholder.ts';
import { recorded } from './queries.ts';

/** What the error budget is counted over. */
export const BUDGET_WINDOW = `Of the last ${placeholder('window')} up to the last full hour, or as long as Prometheus keeps data: the table says how long that is. Below 0 the objective is missed.`;

/**
 * A record of the objective's window, hour by hour. It holds what a replica counted when it caught up, too: no message is left
 * out because the agent was blind.
 */
const hourly = (count: 'failed' | 'finished') =>
  `(${highestOf(recorded(inReplica(count, '1h'), { instance: /$instance/ }))})[${placeholder('window')}:1h]`;

/** Which share of its error budget each account has left. */
export const budgetLeft = `1 - sum_over_time(${hourly('failed')}) / (sum_over_time(${hourly('finished')}) > 0) / ${highestOf(recorded(budget('delivered')))}`;

/** Over how many days of data that is. */
export const budgetDays = `count_over_time(${hourly('finished')}) / 24`;
