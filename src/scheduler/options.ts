import { z } from 'zod';
import { Duration } from '../kit/duration.ts';

export const stalenessOptions = z.strictObject({
  markAfter: z
    .number()
    .min(1)
    .max(1000)
    .default(3)
    .describe(
      'Data is stale after this number of intervals without a complete round (at most two for walks of the dead-letter queue). Long rounds extend the interval.',
    ),
  withdrawAfter: z
    .number()
    .min(1)
    .max(10_000)
    .default(20)
    .describe('Data is withdrawn after this number of intervals without a complete round.'),
  withdrawAtMost: Duration.prefault('30m').describe(
    'Data is withdrawn after this time at the latest, but never before it is stale.',
  ),
});

export type StalenessOptions = z.output<typeof stalenessOptions>;
