import { flowControl } from '../../../collectors/flow-control.ts';
import { BACKLOG, BACKLOG_GROWTH } from '../../../metrics/thresholds.ts';
import type { Point } from '../../../model/history.ts';
import { seriesName } from '../recent.ts';
import { type AccountCheck, type Found, isCurrent, isMoreBy, MINUTE, type Moment } from './check.ts';
import { count, lasting } from './words.ts';

const { waitlistSize, paused } = flowControl.families;

type Row = Moment['view']['flowControl']['rows'][number];

const pointsOf = ({ recent }: Moment, key: string, over: number, family: typeof waitlistSize = waitlistSize) =>
  recent(seriesName(family.name, { flow_control_key: key }), over);

const least = (points: readonly Point[]) => Math.min(...points.map(({ value }) => value));

/** `parallelism 10 of 10 in use, rate 50 of 50 used`, as far as the service says. */
function limitsOf({ parallelismLimit, parallelismInUse, rateLimit, rateUsed }: Row): string {
  const used = (what: string, of: number | null, limit: number | null, word: string) =>
    of === null || limit === null ? [] : [`${what} ${count(of)} of ${count(limit)} ${word}`];
  const all = [
    ...used('parallelism', parallelismInUse, parallelismLimit, 'in use'),
    ...used('rate', rateUsed, rateLimit, 'used'),
  ];
  return all.length === 0 ? '' : `; ${all.join(', ')}`;
}

const isRateUsedUp = ({ rateUsed, rateLimit }: Row) => rateUsed !== null && rateLimit !== null && rateUsed >= rateLimit;

/** What has waited through five minutes counts: queues that keep up build up and drain within minutes. */
const SETTLED = 5 * MINUTE;

/** Of the keys with the largest waitlists, each with its name as subject. */
const keys = (check: (moment: Moment, row: Row) => Omit<Found, 'subject'> | undefined) => (moment: Moment) => {
  const { data, rows } = moment.view.flowControl;
  if (!isCurrent(data)) return [];
  return rows.flatMap(row => {
    const found = row.waiting > 0 ? check(moment, row) : undefined;
    return found ? [{ ...found, subject: row.key }] : [];
  });
};

/** What waits on flow-control keys. */
export const WAITLISTS: readonly AccountCheck[] = [
  {
    kind: 'waitlist_growing',
    severity: 'warning',
    runbook: 'DeliveryFlowControlBacklogGrowing',
    when: 'more than 100 messages wait on a key, at least half more than in the hour before (at least 100 more; 500 more are always enough), and it is not paused. The least of five minutes counts',
    check: keys((moment, row) => {
      if (row.paused || row.waiting <= BACKLOG) return undefined;
      const points = pointsOf(moment, row.key, 75 * MINUTE);
      const settled = points.filter(({ at }) => at >= moment.now - SETTLED);
      const before = points.filter(({ at }) => at < moment.now - SETTLED);
      const now = Math.min(row.waiting, least(settled));
      const first = before.find(({ value }) => isMoreBy(BACKLOG_GROWTH, now, value));
      if (!first || now <= BACKLOG) return undefined;
      return {
        text: `Key ${row.key}: ${count(row.waiting)} wait, +${count(row.waiting - first.value)} in ${lasting((moment.now - first.at) / 1000)}${limitsOf(row)}.`,
      };
    }),
  },
  {
    kind: 'waitlist_stalled',
    severity: 'warning',
    runbook: 'DeliveryWaitlistStalled',
    when: 'the number of messages that wait on a key has been the same for 30 minutes, although it is not paused and its rate is not used up',
    check: keys((moment, row) => {
      if (row.paused || isRateUsedUp(row)) return undefined;
      const points = pointsOf(moment, row.key, 30 * MINUTE);
      const [first] = points;
      if (!first || moment.now - first.at < 29 * MINUTE || points.some(({ value }) => value !== row.waiting))
        return undefined;
      return {
        since: first.at,
        text: `Key ${row.key}: the same ${count(row.waiting)} have been waiting for 30 min or more${limitsOf(row)}.`,
      };
    }),
  },
  {
    kind: 'paused_with_backlog',
    severity: 'warning',
    runbook: 'DeliveryDispatchPausedWithBacklog',
    when: 'a key is paused and messages wait on it; for the first hour it is only worth knowing',
    check: keys((moment, row) => {
      if (!row.paused) return undefined;
      const points = pointsOf(moment, row.key, 60 * MINUTE, paused);
      const [first] = points;
      const isLong =
        first !== undefined && moment.now - first.at >= 59 * MINUTE && points.every(({ value }) => value === 1);
      return {
        ...(isLong ? {} : { severity: 'info' }),
        text: `Key ${row.key} is paused${isLong ? ' for an hour or more' : ''}: ${count(row.waiting)} wait.`,
      };
    }),
  },
];
