import { z } from 'zod';
import { Duration } from '../../kit/duration.ts';
import { DESTINATIONS } from './destinations.ts';

export const eventsOptions = z.strictObject({
  enabled: z.boolean().default(true).describe('Read the event log.'),
  every: Duration.prefault('15s').describe(
    'Interval between reads of the event log: one request per 1,000 new events, and one more a minute while the log is busy.',
  ),
  window: Duration.prefault('5m').describe('Window of `delivery_events_recent`.'),
  overlap: Duration.prefault('60s').describe(
    'Maximum delay after which an event may enter the log and still be in order. Message lifecycles are computed this far behind the newest event, or up to a minute more. On a busy log, each read repeats only as much of this span as recent events were delayed; the whole span is repeated once a minute.',
  ),
  lateSweep: Duration.prefault('30m').describe(
    'Maximum delay after which an event may enter the log and still be counted. Each minute of the log is read again at this age.',
  ),
  destination: z
    .enum(DESTINATIONS, { error: `must be one of ${DESTINATIONS.join(', ')}` })
    .default('none')
    .describe(
      'Source of the label `destination`. `none` omits the label, `route` needs `collect.routes`, and `workflowUrl` is shown without its query.',
    ),
  maxDestinations: z
    .int()
    .min(1)
    .max(10_000)
    .default(100)
    .describe('Maximum number of destinations with their own series; the rest is counted as `__other__`.'),
  destinationHistograms: z
    .boolean()
    .default(false)
    .describe('Whether the wait-time histograms have the label `destination`, too.'),
});

export type EventsOptions = z.output<typeof eventsOptions>;
