import { type AlertCase, ago, FIRES_ONCE, flat, from } from './case.ts';

const of = (name: string) => `delivery_schedule_${name}{schedule="nightly"}`;
const [STARTED, DELIVERED] = [of('last_started_timestamp_seconds'), of('last_delivered_timestamp_seconds')];

export const scheduleCases: readonly AlertCase[] = [
  {
    alert: 'DeliveryScheduleMissed',
    labels: { schedule: 'nightly' },
    fires: { [of('missed_total')]: from(30, 1), [STARTED]: flat(0) },
    at: 30,
    description: 'Starts of nightly in a that were missed in the last 24 hours: 1.',
    below: { 'no recent increase': { [of('missed_total')]: flat(7), [STARTED]: flat(0) } },
    idle: { [of('missed_total')]: flat(0), [STARTED]: ago(60) },
    exempt: FIRES_ONCE,
  },
  {
    alert: 'DeliveryScheduleLate',
    labels: { schedule: 'nightly' },
    fires: { [of('late_total')]: from(30, 1), [DELIVERED]: flat(0) },
    at: 30,
    description: 'Starts of nightly in a in the last 24 hours whose messages were not delivered in time: 1.',
    below: { 'no recent increase': { [of('late_total')]: flat(7), [DELIVERED]: flat(0) } },
    idle: { [of('late_total')]: flat(0), [DELIVERED]: ago(60) },
    exempt: FIRES_ONCE,
  },
];
