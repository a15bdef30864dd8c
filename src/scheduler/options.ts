import { z } from 'zod';
import { Duration } from '../kit/duration.ts';

export const stalenessOptions = z.strictObject({
  markAfter: z
    .number()
    .min(1)
    .max(1000)
    .default(3)
    .describe(
      'Data is stale if no read has completed for this number of intervals. For walks (full scans of the dead-letter queue), the number is at most two. If a read takes longer than its interval, its duration counts instead.',
    ),
  withdrawAfter: z
    .number()
    .min(1)
    .max(10_000)
    .default(20)
    .describe('Stale data is withdrawn if no read has completed for this number of intervals.'),
  withdrawAtMost: Duration.prefault('30m').describe(
    'Same as `withdrawAfter`, but as a time. The shorter of the two applies.',
  ),
});

export type StalenessOptions = z.output<typeof stalenessOptions>;
