import { scheduleFamilies } from '../src/collectors/index.ts';
import type { Family } from '../src/metrics/family.ts';
import { highestOf, latest, series } from '../src/rules/promql.ts';
import type { AlertSpec } from './alert.ts';
import { difference } from './promql.ts';

const { scheduleMissed, scheduleLate, scheduleStarted, scheduleDelivered } = scheduleFamilies;

/** Returns the misses in the last hour, or in the last day if the last success is more than a day ago. */
const lately = (misses: Family<'schedule'>, success: Family<'schedule'>) =>
  highestOf(
    `${difference('1d')(series(misses))} > 0 and time() - ${latest(series(success))} > 86400 or ${difference('1h')(series(misses))} > 0`,
    misses.labels,
  );

/** Alerts on schedules. */
export const scheduleAlerts: readonly AlertSpec[] = [
  {
    name: 'DeliveryScheduleMissed',
    set: 'schedules',
    severity: 'warning',
    collector: 'events',
    isAbsentWhenBlind: true,
    labels: ['schedule'],
    expr: lately(scheduleMissed, scheduleStarted),
    summary: 'The schedule {{ $labels.schedule }} of {{ $labels.account }} did not start.',
    description:
      'Starts of {{ $labels.schedule }} in {{ $labels.account }} that were missed in the last 24 hours: {{ $value | printf "%.0f" }}.',
    dashboard: 'overview',
  },
  {
    name: 'DeliveryScheduleLate',
    set: 'schedules',
    severity: 'warning',
    collector: 'events',
    isAbsentWhenBlind: true,
    labels: ['schedule'],
    expr: lately(scheduleLate, scheduleDelivered),
    summary: 'Messages of the schedule {{ $labels.schedule }} of {{ $labels.account }} were not delivered in time.',
    description:
      'Starts of {{ $labels.schedule }} in {{ $labels.account }} in the last 24 hours whose messages were not delivered in time: {{ $value | printf "%.0f" }}.',
    dashboard: 'overview',
  },
];
