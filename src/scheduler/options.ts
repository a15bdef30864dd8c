import { z } from 'zod';
import { Duration } from '../kit/duration.ts';

export const stalenessOptions = z.strictObject({
  markAfter: z
    .number()
    .min(1)
    .max(1000)
    .default(3)
    .describe(
      'Data is marked stale after this number of intervals without a complete round, or of durations of the last complete round if that is longer.',
    ),
  withdrawAfter: z
    .number()
    .min(1)
    .max(10_000)
    .default(20)
    .describe('Data is withdrawn after this number of intervals without a complete round …'),
  withdrawAtMost: Duration.prefault('30m').describe(
    '… or after this time, whichever is shorter, but never before it is marked stale.',
  ),
});

export type StalenessOptions = z.output<typeof stalenessOptions>;
