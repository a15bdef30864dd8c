import { z } from 'zod';
import { AccountBrakes } from './auto-cancel.ts';
import { AccountRow } from './overview.ts';
import { Alert, Maybe, Problem } from './parts.ts';
import { ShownStatus } from './status.ts';

/** Members that an older version does not know are ignored. A row of another version is unreadable. */
export const STATUS_VERSION = 1;

/** The reader of a row adds these. */
const OF_READER = { account: true, replica: true, publicUrl: true, holder: true, asOf: true } as const;

/** A list without the entries that this version cannot read. */
const known = <T extends z.ZodType>(entry: T) =>
  z.array(z.unknown()).transform(list => list.flatMap(each => entry.safeParse(each).data ?? []) as z.output<T>[]);

/** The status of an account that its holder puts into the store for the other replicas. */
export const StatusRow = z.object({
  version: z.literal(STATUS_VERSION),
  /** When this was so, milliseconds since the Unix epoch by the database's clock. A time beyond what `Date` holds is damage. */
  at: z.number().min(0).max(8.64e15),
  row: AccountRow.omit({ labels: true, worst: true, firing: true, ...OF_READER }),
  /** `server.publicReplicaUrl` of the holder. */
  publicUrl: Maybe(z.url({ protocol: /^https?$/ })).catch(null),
  up: z.boolean(),
  /** The worst first; `row.problems` counts all. */
  problems: known(Problem),
  alerts: known(Alert),
  alertsTotal: z.int(),
  alertsFiring: z.int(),
  collectors: known(ShownStatus.shape.collectors.element),
  autoCancel: z
    .object({
      brakes: AccountBrakes.omit(OF_READER),
      /** `left`: cancels that the rule's limit still allows. */
      rules: z.array(z.object({ name: z.string(), candidates: z.int(), left: z.number().nullable() })),
      /** Time of the journal's last line, milliseconds since the Unix epoch. */
      journalAt: z.number(),
    })
    .nullable()
    .describe('Null while auto-cancel is off.'),
});
export type StatusRow = z.output<typeof StatusRow>;
