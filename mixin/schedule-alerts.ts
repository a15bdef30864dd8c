import { scheduleFamilies } from '../src/collectors/index.ts';
import type { Family } from '../src/metrics/family.ts';
import { highest } from '../src/rules/promql.ts';
import type { Alert } from './alert.ts';
import { riseAboveLowest } from './promql.ts';

const { scheduleMissed, scheduleLate, scheduleStarted, scheduleDelivered } = scheduleFamilies;

/** Increases within the last day; only within the last hour if the schedule has been on time since. */
function lately(counter: Family<'schedule'>, madeGood: Family<'schedule'>): string {
  const risen = (window: string) => `${highest(counter, riseAboveLowest(window))} > 0`;
  return `${risen('1d')}\nunless (${highest(madeGood)} > time() - 86400 unless ${risen('1h')})`;
}

/** Alerts on schedules. */
export const scheduleAlerts: readonly Alert[] = [
  {
    name: 'DeliveryScheduleMissed',
    set: 'schedules',
    severity: 'warning',
    collector: 'events',
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
    labels: ['schedule'],
    expr: lately(scheduleLate, scheduleDelivered),
    summary: 'Messages of the schedule {{ $labels.schedule }} of {{ $labels.account }} were not delivered in time.',
    description:
      'Starts of {{ $labels.schedule }} in {{ $labels.account }} in the last 24 hours whose messages were not delivered in time: {{ $value | printf "%.0f" }}.',
    dashboard: 'overview',
  },
];
