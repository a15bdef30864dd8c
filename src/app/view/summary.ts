import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { z } from 'zod';
import { AccountView } from '../../http/api/account.ts';
import { AccountBrakes, Candidate } from '../../http/api/auto-cancel.ts';
import { AccountRow } from '../../http/api/overview.ts';
import { Alert, Problem } from '../../http/api/parts.ts';
import { ShownStatus } from '../../http/api/status.ts';

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

/** What its own page shows. Alerts, and what is wrong, are those of the summary where that is newer. */
export const Whole = AccountView.omit({ replica: true, asOf: true });
export type Whole = z.output<typeof Whole>;

/** Failure callbacks that are tracked. */
export const Candidates = z.array(Candidate);

/** Keys of the rows. */
export const KEYS = { summary: 'view/summary', whole: 'view/account', candidates: 'view/candidates' } as const;

/** What a replica has told of an account. */
export interface Told<T> {
  /** When it was so, milliseconds since the Unix epoch by the database's clock. */
  readonly at: number;
  /** Id of the replica that told it. */
  readonly by: string;
  readonly body: T;
}

const VERSION = 1;
/** Characters from which on a row is compressed. */
const LARGE = 1000;
/** Bytes that no row has, however well it was compressed. */
const MOST = 8_000_000;

const envelope = z.object({
  version: z.literal(VERSION),
  at: z.number(),
  by: z.string(),
  body: z.unknown().optional(),
  deflated: z.string().optional(),
});

export function encodeTold({ at, by, body }: Told<unknown>): string {
  const text = JSON.stringify(body);
  const what = text.length < LARGE ? { body } : { deflated: deflateRawSync(text, { level: 9 }).toString('base64') };
  return JSON.stringify({ version: VERSION, at, by, ...what });
}

/** Undefined: damaged, or written by another version, whose words these are not. */
export function decodeTold<T>(schema: z.ZodType<T>, text: string): Told<T> | undefined {
  try {
    const { at, by, body, deflated } = envelope.parse(JSON.parse(text));
    const inflate = (packed: string) =>
      JSON.parse(inflateRawSync(Buffer.from(packed, 'base64'), { maxOutputLength: MOST }).toString());
    return { at, by, body: schema.parse(deflated === undefined ? body : inflate(deflated)) };
  } catch {
    return undefined;
  }
}
