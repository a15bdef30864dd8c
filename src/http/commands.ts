import { z } from 'zod';

const text = z
  .string({ error: 'must be text' })
  .regex(/\S/, { error: 'must not be blank' })
  .max(1000, { error: 'must have at most 1000 characters' });

export const ReasonBody = z.strictObject(
  { reason: text.describe('For the journal.') },
  { error: 'must be an object with reason alone' },
);

export const ApprovalBody = z.strictObject(
  { action: text.describe('Id of an action that waits, at least its first 6 characters, or the dlqId.') },
  { error: 'must be an object with action alone' },
);
