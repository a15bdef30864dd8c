import { badInMinute, budgets, finishedInMinute } from './message-records.ts';
import { placeholder } from './placeholder.ts';
import { recorded } from './queries.ts';

/** Describes the window of the error budget. */
export const BUDGET_WINDOW = `Of the last ${placeholder('window')}, or as long as Prometheus keeps data: the table says how long that is. Below 0 the objective is missed.`;

const delivered = { objective: 'delivered' } as const;
const finished = recorded(finishedInMinute);
const sum = (selector: string) => `sum_over_time(${selector}[${placeholder('window')}])`;

/** Remaining share of each account's error budget. */
export const budgetLeft = `1 - max without (objective) (${sum(recorded(badInMinute, delivered))} / ignoring (objective) group_left () (${sum(finished)} > 0) / ${recorded(budgets, delivered)})`;

/** Days of data behind `budgetLeft`. */
export const budgetDays = `count_over_time(${finished}[${placeholder('window')}:1h]) / 24`;
