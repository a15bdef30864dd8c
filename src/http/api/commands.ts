import { z } from 'zod';
import { Fault } from './agent.ts';
import { Num } from './parts.ts';

const text = z
  .string({ error: 'must be text' })
  .regex(/\S/, { error: 'must not be blank' })
  .max(1000, { error: 'must have at most 1000 characters' });

/** Body of a POST that pauses or resumes auto-cancel. */
export const Reason = z.strictObject(
  { reason: text.describe('For the journal.') },
  { error: 'must be an object with reason alone' },
);

/** Body of a POST that approves an action. */
export const Approval = z.strictObject(
  { action: text.describe('Id of an action that waits, at least its first 6 characters, or the dlqId.') },
  { error: 'must be an object with action alone' },
);

/** POST /-/reload */
export const Reloaded = z.object({ changed: z.array(z.string()).describe('By the words of the configuration.') });
export const NotReloaded = z.object({ faults: z.array(Fault) });

/** POST /api/v1/auto-cancel/approve */
export const Approved = z.object({ account: z.string(), action: z.string(), rule: z.string() });

/** POST /api/v1/auto-cancel/pause and resume */
export const Stopped = z.object({
  accounts: z.array(z.string()),
  before: z
    .object({
      at: Num.describe('Milliseconds since the Unix epoch.'),
      by: z.string().optional(),
      reason: z.string(),
    })
    .optional()
    .describe('The pause that lasted; absent: there was none.'),
});
