import { z } from 'zod';
import { Duration } from '../kit/duration.ts';

export const stalenessOptions = z.strictObject({
  markAfter: z
    .number()
    .min(1)
    .max(1000)
    .default(3)
    .describe(
      'Data is marked stale when no complete round has ended for this many intervals of the round, or this many durations of its last complete run if that is longer.',
    ),
  withdrawAfter: z
    .number()
    .min(1)
    .max(10_000)
    .default(20)
    .describe('Data is withdrawn when no complete round has ended for this many intervals of the round …'),
  withdrawAtMost: Duration.prefault('30m').describe(
    '… or for this long, whichever is shorter, but never before it is marked stale.',
  ),
});

export type StalenessOptions = z.output<typeof stalenessOptions>;
