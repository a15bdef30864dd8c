import { z } from 'zod';
import { Duration } from '../kit/duration.ts';

export const stalenessOptions = z.strictObject({
  markAfter: z
    .number()
    .min(1)
    .max(1000)
    .default(3)
    .describe(
      'Data is stale after this number of intervals without a complete read. For walks (full scans of the dead-letter queue), two intervals are the maximum. A read that is longer than its interval extends the interval.',
    ),
  withdrawAfter: z
    .number()
    .min(1)
    .max(10_000)
    .default(20)
    .describe('Stale data is withdrawn after this number of intervals without a complete read.'),
  withdrawAtMost: Duration.prefault('30m').describe(
    'Upper limit for the time until data is withdrawn. Only stale data is withdrawn.',
  ),
});

export type StalenessOptions = z.output<typeof stalenessOptions>;
