import { z } from 'zod';
import { Duration } from '../../kit/duration.ts';
import { DESTINATIONS } from './destinations.ts';

export const eventsOptions = z.strictObject({
  enabled: z.boolean().default(true).describe('Whether the event log is read.'),
  every: Duration.prefault('15s').describe(
    'Interval between reads, at one request per 1,000 new events, and one more a minute if the log is busy.',
  ),
  window: Duration.prefault('5m').describe('Window of `delivery_events_recent`.'),
  overlap: Duration.prefault('60s').describe(
    'Maximum delay of an event that is still processed in order. Message lifecycles are computed this far behind the newest event.',
  ),
  lateSweep: Duration.prefault('30m').describe(
    'Maximum delay of an event that is still counted. Each minute of the log is read again at this age.',
  ),
  destination: z
    .enum(DESTINATIONS, { error: `must be one of ${DESTINATIONS.join(', ')}` })
    .default('none')
    .describe('Source of the label `destination`. `none` omits the label, `route` needs `collect.routes`.'),
  maxDestinations: z
    .int()
    .min(1)
    .max(10_000)
    .default(100)
    .describe('Maximum number of destinations with their own series. `__other__` is the sum of the others.'),
  destinationHistograms: z
    .boolean()
    .default(false)
    .describe('Whether the histograms of time to deliver and queue wait have the label `destination`, too.'),
});

export type EventsOptions = z.output<typeof eventsOptions>;
