import { z } from 'zod';
import { Num, Seconds, Time } from './parts.ts';

const Milliseconds = Num.describe('Milliseconds.');
const EpochMilliseconds = Num.describe('Milliseconds since the Unix epoch.');

const Round = z.object({
  round: z.string(),
  every: Milliseconds.describe('Milliseconds between two starts, as configured.'),
  success: z.boolean().optional().describe('Of the last attempt; absent before the first ended.'),
  complete: z.boolean().optional().describe('Whether that attempt read to the end.'),
  partial: z.boolean().optional().describe('Rows of what was read last could not be read.'),
  durationSeconds: Seconds.optional(),
  dataAt: EpochMilliseconds.optional().describe(
    'When the last complete round began, milliseconds since the Unix epoch.',
  ),
  consecutiveFailures: z.int(),
  idle: z.enum(['waiting', 'not_due']).optional().describe('Why the last turn asked nothing.'),
  stale: z.boolean(),
  failure: z.object({ reason: z.string(), message: z.string() }).optional().describe('Of the last attempt.'),
});

/** How the rounds of an account fare. */
export const ShownStatus = z.object({
  account: z.string(),
  up: z.boolean(),
  collectors: z.array(
    z.object({
      collector: z.string(),
      withdrawn: z.boolean().describe('Too old to be shown.'),
      rounds: z.array(Round),
      failedFilters: z
        .array(
          z.object({
            name: z.string(),
            reason: z.string(),
            message: z.string(),
            since: EpochMilliseconds,
            isContradicted: z.boolean().describe('Rows that the service lists for it do not match it.'),
          }),
        )
        .optional()
        .describe('Filters that could not be read in the last round that was read to its end.'),
    }),
  ),
  replica: z.string().optional().describe('URL of the replica that holds it, where another one does.'),
  asOf: EpochMilliseconds.optional().describe(
    'When this was so, milliseconds since the Unix epoch; absent: now, as this replica holds it.',
  ),
});
export type ShownStatus = z.output<typeof ShownStatus>;

/** GET /api/v1/status */
export const Status = z.object({ version: z.string(), now: Time, accounts: z.array(ShownStatus) });
