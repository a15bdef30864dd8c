import { highestOf } from '../src/rules/promql.ts';
import { budget, inReplica } from './message-records.ts';
import { placeholder } from './placeholder.ts';
import { recorded } from './queries.ts';

/** Describes the window of the error budget. */
export const BUDGET_WINDOW = `Of the last ${placeholder('window')} up to the last full hour, or as long as Prometheus keeps data: the table says how long that is. Below 0 the objective is missed.`;

/**
 * Hourly samples of a record over the objective's window. They include messages that a replica counted while it caught
 * up, so blindness omits none.
 */
const hourly = (count: 'failed' | 'finished') =>
  `(${highestOf(recorded(inReplica(count, '1h'), { instance: /$instance/ }))})[${placeholder('window')}:1h]`;

/** Remaining share of each account's error budget. */
export const budgetLeft = `1 - sum_over_time(${hourly('failed')}) / (sum_over_time(${hourly('finished')}) > 0) / ${highestOf(recorded(budget('delivered')))}`;

/** Days of data behind `budgetLeft`. */
export const budgetDays = `count_over_time(${hourly('finished')}) / 24`;
