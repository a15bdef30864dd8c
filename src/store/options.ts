import { z } from 'zod';

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
});

export type StoreOptions = z.output<typeof storeOptions>;
