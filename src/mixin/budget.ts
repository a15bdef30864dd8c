import { events } from '../collectors/events/events.ts';
import { formatDuration } from '../kit/duration.ts';
import type { Objectives } from '../metrics/objectives.ts';
import { rise } from './queries.ts';

/** What the error budget is counted over. */
export const windowOf = ({ delivered, window }: Objectives) =>
  `Of the last ${formatDuration(window)}, with the account’s own objective where it is known, else ${delivered * 100} %. Below 0 the objective is missed.`;

/** Which share of its error budget each account has left. */
export const budgetLeft = ({ delivered, window }: Objectives) => {
  const of = (outcome: string | RegExp) =>
    rise(events.families.finished, formatDuration(window), { keep: ['account'], where: { outcome } });
  return `1 - ${of('failed')} / (${of(/delivered|failed/)} > 0) / ${1 - delivered}`;
};
