import { z } from 'zod';
import { Duration } from '../kit/duration.ts';

const ratio = z
  .number()
  .gt(0, { error: 'must be above 0' })
  .lt(1, { error: 'must be below 1: an objective of 1 leaves no error budget' });

export const objectivesOptions = z.strictObject({
  delivered: ratio
    .default(0.99)
    .describe('Share of ended messages that are to be delivered; the rest is the error budget.'),
  onTime: ratio.default(0.99).describe('Share of messages that are to end within `onTimeWithin`.'),
  onTimeWithin: Duration.prefault('5m').describe(
    'Time within which a message is to end, from when it was due. `delivery_messages_overdue_total` counts those that do not; a change counts from then on.',
  ),
  window: Duration.prefault('30d').describe('Time over which `delivered` and `onTime` are meant.'),
  dlqMaxAge: Duration.prefault('1d').describe('Age from which an entry of the dead-letter queue is too old.'),
});
