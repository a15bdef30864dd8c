import { z } from 'zod';
import { Duration } from '../kit/duration.ts';

export const stalenessOptions = z.strictObject({
  markAfter: z
    .number()
    .min(1)
    .max(1000)
    .default(3)
    .describe(
      'Data is marked stale when no complete round has ended for this many of the round’s intervals, or of the last one’s duration where that is longer.',
    ),
  withdrawAfter: z
    .number()
    .min(1)
    .max(10_000)
    .default(20)
    .describe('Data is no longer shown when no complete round has ended for this many of the round’s intervals …'),
  withdrawAtMost: Duration.prefault('30m').describe(
    '… or for this long, whichever is shorter; never before it is marked stale.',
  ),
});

export type StalenessOptions = z.output<typeof stalenessOptions>;
