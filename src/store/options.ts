import { z } from 'zod';
import { DurationOrZero } from '../kit/duration.ts';

const historyOptions = z.strictObject({
  keep: DurationOrZero.prefault('48h').describe(
    'How long samples are kept, one a minute, for charts and for the windows of `growth` and `ratio` conditions. `0s`: none in the store.',
  ),
  maxMB: z
    .int({ error: 'must be a whole number from 1 to 100000' })
    .min(1, { error: 'must be a whole number from 1 to 100000' })
    .max(100_000, { error: 'must be a whole number from 1 to 100000' })
    .default(100)
    .describe(
      'Megabytes (10^6 bytes) that the history of all accounts may take, each the same share. Where a sample a minute does not fit, older ones are thinned: to one in 2, 5, 10, 15, 30 minutes.',
    ),
});

export const storeOptions = z.strictObject({
  kind: z
    .enum(['sqlite', 'memory'], { error: 'must be sqlite or memory' })
    .default('sqlite')
    .describe('`sqlite`: state in a file, survives restarts. `memory`: state is lost when the process ends.'),
  path: z
    .string({ error: 'must be the path of a file' })
    .refine(text => text !== '' && !text.includes('\0'), { error: 'must be the path of a file' })
    .default('./data/delivery-watch.db')
    .describe(
      'File for `sqlite`, on a local disk; its folder is created. Only one agent may use it at a time. Relative to the working directory.',
    ),
  history: historyOptions.prefault({}).describe('Samples of each account, for the page and for alert conditions.'),
});

export type StoreOptions = z.output<typeof storeOptions>;
