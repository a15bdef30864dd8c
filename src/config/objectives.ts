import { z } from 'zod';
import { Duration } from '../kit/duration.ts';

const ratio = z
  .number()
  .gt(0, { error: 'must be above 0' })
  .lt(1, { error: 'must be below 1, such as 0.99: an objective of 1 leaves no error budget' });

export const objectivesOptions = z.strictObject({
  delivered: ratio
    .default(0.99)
    .describe('Target share of ended messages that are delivered; the rest is the error budget.'),
  onTime: ratio
    .default(0.99)
    .describe('Target share of messages that are delivered within `onTimeWithin`; failed ones miss it.'),
  onTimeWithin: Duration.prefault('5m').describe(
    'Maximum time between a message’s due time and its end. A change is not retroactive.',
  ),
  window: Duration.prefault('30d').describe('Period to which `delivered` and `onTime` apply.'),
  dlqMaxAge: Duration.prefault('1d').describe('Age at which a dead letter counts as too old.'),
});
