import { z } from 'zod';
import { CHECK_KINDS } from '../../model/check-kind.ts';
import { AccountBrakes } from './auto-cancel.ts';
import { AccountRow } from './overview.ts';
import { AlertView, Maybe, Problem } from './parts.ts';
import { ShownStatus } from './status.ts';

/** Version of status rows. Readers ignore unknown members and reject rows of another version. */
export const STATUS_VERSION = 1;

/** Members that the reader of a row adds. */
const OF_READER = { account: true, replica: true, publicUrl: true, holder: true, asOf: true } as const;

/** Returns the schema of a list that drops entries with an unknown shape. */
const known = <T extends z.ZodType>(entry: T) =>
  z.array(z.unknown()).transform(list => list.flatMap(each => entry.safeParse(each).data ?? []) as z.output<T>[]);

/** Status of an account, stored by its holder for the other replicas. */
export const StatusRow = z.object({
  version: z.literal(STATUS_VERSION),
  /** Time of the data by the database's clock (ms since the Unix epoch), within the range of `Date`. */
  at: z.number().min(0).max(8.64e15),
  row: AccountRow.omit({ labels: true, worst: true, firing: true, ...OF_READER }),
  /** `server.publicReplicaUrl` of the holder. */
  publicUrl: Maybe(z.url({ protocol: /^https?$/ })).catch(null),
  up: z.boolean(),
  /** Worst first; `row.problems` is the total. */
  problems: known(Problem),
  /** Kinds of checks without a result; null if the version that wrote the row does not report them. */
  unevaluated: Maybe(known(z.enum(CHECK_KINDS))).default(null),
  alerts: known(AlertView),
  alertsTotal: z.int(),
  alertsFiring: z.int(),
  collectors: known(ShownStatus.shape.collectors.element),
  autoCancel: z
    .object({
      brakes: AccountBrakes.omit(OF_READER),
      /** `left`: number of cancels that the rule's limit still allows. */
      rules: z.array(z.object({ name: z.string(), candidates: z.int(), left: z.number().nullable() })),
      /** Time of the journal's last line (ms since the Unix epoch). */
      journalAt: z.number(),
    })
    .nullable()
    .describe('Null while auto-cancel is off.'),
});
export type StatusRow = z.output<typeof StatusRow>;
