import { z } from 'zod';
import { Num, Seconds, Time } from './parts.ts';

const Milliseconds = Num.describe('Milliseconds.');
const EpochMilliseconds = Num.describe('Milliseconds since the Unix epoch.');

const Round = z.object({
  round: z.string(),
  every: Milliseconds.describe('Configured interval (ms).'),
  success: z.boolean().optional().describe('Whether the last attempt succeeded; absent before the first has ended.'),
  complete: z.boolean().optional().describe('Whether the last attempt read all data.'),
  partial: z.boolean().optional().describe('Whether rows of the last read were unreadable.'),
  durationSeconds: Seconds.optional(),
  dataAt: EpochMilliseconds.optional().describe('Start of the last complete round (ms since the Unix epoch).'),
  consecutiveFailures: z.int(),
  idle: z.enum(['waiting', 'not_due', 'absent']).optional().describe('Why the last attempt read nothing.'),
  stale: z.boolean(),
  failure: z.object({ reason: z.string(), message: z.string() }).optional().describe('Failure of the last attempt.'),
  retryAt: EpochMilliseconds.optional().describe(
    'Start of the next attempt after a failed one (ms since the Unix epoch); absent while an attempt is in flight.',
  ),
});

export const ShownStatus = z.object({
  account: z.string(),
  up: z.boolean(),
  collectors: z.array(
    z.object({
      collector: z.string(),
      withdrawn: z.boolean().describe('Whether the data is too old to be exposed.'),
      rounds: z.array(Round),
      failedFilters: z
        .array(
          z.object({
            name: z.string(),
            reason: z.string(),
            message: z.string(),
            since: EpochMilliseconds,
            isContradicted: z.boolean().describe('Whether listed rows contradict the filter.'),
          }),
        )
        .optional()
        .describe('Filters that were unreadable in the last complete round.'),
    }),
  ),
});
export type ShownStatus = z.output<typeof ShownStatus>;

/** GET /api/v1/status */
export const Status = z.object({ version: z.string(), now: Time, accounts: z.array(ShownStatus) });
