import { z } from 'zod';

export const intOption = ({ min, max, otherwise }: { readonly min: number; max: number; otherwise: number }) =>
  z.int().min(min).max(max).default(otherwise);

/** Whether to read data that the service may lack. */
export const AutoOrOff = z
  .union([z.literal('auto'), z.literal(false)], { error: 'must be auto or false' })
  .default('auto');

/** Name of an entry of a list, which is also a label value. */
export const EntryName = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, { error: 'must be 1 to 64 of A-Z a-z 0-9 _ -' });

/** Names of the accounts to which an entry applies; null for all. */
export const AccountNames = z.array(z.string()).min(1, { error: 'must not be empty' }).nullable().default(null);
