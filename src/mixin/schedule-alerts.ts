import { highest, increase } from '../alerts/promql.ts';
import { scheduleFamilies } from '../collectors/index.ts';
import type { Family } from '../metrics/family.ts';
import type { Alert } from './alert.ts';

const { scheduleMissed, scheduleLate, scheduleStarted, scheduleDelivered } = scheduleFamilies;

/** It happened within the hour; or within the day, where what would make it good has not happened for a day. */
function lately(counter: Family<'schedule'>, madeGood: Family<'schedule'>): string {
  const risen = (window: string) => `${highest(counter, increase(window))} > 0`;
  return `${risen('1h')}\nor (${risen('1d')} unless time() - ${highest(madeGood)} < 86400)`;
}

/** What the user expects by the clock. */
export const scheduleAlerts: readonly Alert[] = [
  {
    name: 'DeliveryScheduleMissed',
    severity: 'warning',
    collector: 'events',
    labels: ['schedule'],
    expr: lately(scheduleMissed, scheduleStarted),
    summary: 'The schedule {{ $labels.schedule }} of {{ $labels.account }} did not start.',
    description:
      'Missed starts of {{ $labels.schedule }} in {{ $labels.account }}: {{ $value | printf "%.0f" }} in the last hour, or in the last day if it has not started for a day.',
    dashboard: 'overview',
  },
  {
    name: 'DeliveryScheduleLate',
    severity: 'warning',
    collector: 'events',
    labels: ['schedule'],
    expr: lately(scheduleLate, scheduleDelivered),
    summary: 'Messages of the schedule {{ $labels.schedule }} of {{ $labels.account }} were not delivered in time.',
    description:
      'Late starts of {{ $labels.schedule }} in {{ $labels.account }}: {{ $value | printf "%.0f" }} in the last hour, or in the last day if nothing of it was delivered for a day.',
    dashboard: 'overview',
  },
];
