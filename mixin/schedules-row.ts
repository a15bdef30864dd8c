import { scheduleFamilies } from '../src/collectors/events/schedules.ts';
import { highestOf } from '../src/rules/promql.ts';
import { ofRow } from './dashboard-links.ts';
import type { RowSpec } from './panel.ts';
import { chosen, rise } from './queries.ts';

const { scheduleStarted, scheduleDelivered, scheduleFailed, scheduleNext, scheduleMissed, scheduleLate } =
  scheduleFamilies;

const latest = (family: typeof scheduleStarted) => highestOf(chosen(family), ['schedule']);
const perSchedule = { keep: ['account', 'schedule'] } as const;
const AMISS = { warning: 1, critical: 3, calm: 'text' };

/** Expected and actual times of schedules. */
export const schedulesRow: RowSpec = {
  title: 'Schedules',
  panels: [
    {
      kind: 'table',
      title: 'Schedules',
      description:
        'Does each schedule start and deliver when it is expected to? Times are how long ago; next: in how long. Missed: no message was created; late: none was delivered in time. Only schedules that the configuration names.',
      unit: 'seconds',
      labels: { account: 'Account', schedule: 'Schedule' },
      columns: [
        { title: 'Missed (24 h)', expr: rise(scheduleMissed, '24h', perSchedule), thresholds: AMISS },
        { title: 'Late (24 h)', expr: rise(scheduleLate, '24h', perSchedule), thresholds: AMISS },
        { title: 'Started', unit: 'seconds', expr: `time() - ${latest(scheduleStarted)}` },
        { title: 'Delivered', unit: 'seconds', expr: `time() - ${latest(scheduleDelivered)}` },
        { title: 'Failed', unit: 'seconds', expr: `time() - ${latest(scheduleFailed)}` },
        { title: 'Next', unit: 'seconds', expr: `${latest(scheduleNext)} - time()` },
      ],
      sortBy: ['Missed (24 h)', 'Late (24 h)'],
      links: { Account: ofRow('overview', 'dlq') },
      noValue: 'the configuration names no schedules',
      width: 24,
      height: 6,
    },
  ],
};
