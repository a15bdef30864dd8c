import { z } from 'zod';

export const storeOptions = z.strictObject({
  kind: z
    .enum(['memory'], { error: 'must be memory' })
    .default('memory')
    .describe('Where what must outlast a round is kept. `memory`: as long as the process lives.'),
});
