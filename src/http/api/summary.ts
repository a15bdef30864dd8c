import { z } from 'zod';
import { AccountView } from './account.ts';
import { AccountBrakes, Candidate } from './auto-cancel.ts';
import { AccountRow } from './overview.ts';
import { Alert, Problem } from './parts.ts';
import { ShownStatus } from './status.ts';

/** What the replica that holds an account puts into the store for the others, under the account. */

/** What lists show of it: asked for of all accounts at once. */
export const Summary = z.object({
  row: AccountRow.omit({ firing: true, replica: true, asOf: true }),
  up: z.boolean(),
  problems: z.array(Problem),
  alerts: z.array(Alert),
  status: ShownStatus,
  /** Null while auto-cancel is off. */
  autoCancel: z
    .object({
      brakes: AccountBrakes.omit({ asOf: true }),
      /** `left`: cancels that the rule's limit still allows. */
      rules: z.array(z.object({ name: z.string(), candidates: z.int(), left: z.number().nullable() })),
      /** Of the last line of its journal, milliseconds since the Unix epoch. */
      journalAt: z.number(),
      tracked: z.int(),
    })
    .nullable(),
});
export type Summary = z.output<typeof Summary>;

/** What its own page shows beyond that. */
export const Whole = AccountView.omit({
  replica: true,
  asOf: true,
  state: true,
  up: true,
  problems: true,
  alerts: true,
  rounds: true,
});
export type Whole = z.output<typeof Whole>;

/** Failure callbacks that are tracked. */
export const Candidates = z.array(Candidate);

/** Of what is put into the store. Another one is not read. */
export const SUMMARY_VERSION = 1;

/** Around each: what was so at a time of the database's clock (milliseconds since the Unix epoch), by the replica of that id. */
export const Envelope = z.object({
  version: z.literal(SUMMARY_VERSION),
  at: z.number(),
  by: z.string(),
  body: z.unknown().optional(),
  deflated: z.string().optional(),
});
