import { z } from 'zod';

export const storeOptions = z.strictObject({
  kind: z
    .enum(['sqlite', 'memory'], { error: 'must be sqlite or memory' })
    .default('sqlite')
    .describe(
      'Where what must outlast a round is kept. `sqlite`: in a file, across restarts. `memory`: as long as the process lives.',
    ),
  path: z
    .string({ error: 'must be the path of a file' })
    .refine(text => text !== '' && !text.includes('\0'), { error: 'must be the path of a file' })
    .default('./data/delivery-watch.db')
    .describe(
      'The file of `sqlite`, on a local disk; its folder is created. One process at a time may use it. A relative path starts at the working directory.',
    ),
});

export type StoreOptions = z.output<typeof storeOptions>;
