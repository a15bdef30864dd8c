import { z } from 'zod';
import { Duration, DurationOrZero } from '../kit/duration.ts';
import { secret } from '../kit/secret.ts';
import { urlError } from './postgres-url.ts';

export { urlError, urlWarning } from './postgres-url.ts';

const MEGABYTES = { error: 'must be a whole number from 1 to 100000' };

const historyOptions = z.strictObject({
  keep: DurationOrZero.prefault('48h').describe(
    'How long the history (one sample a minute) is kept for charts and for `growth` and `ratio` alerts. `0s`: 90 minutes, in memory.',
  ),
  maxMB: z
    .int(MEGABYTES)
    .min(1, MEGABYTES)
    .max(100_000, MEGABYTES)
    .default(100)
    .describe(
      'Maximum megabytes (10^6 bytes) of the history. Each account has an equal share, above which its oldest hours are deleted.',
    ),
});

const LEASE = { min: 5000, max: 300_000, error: 'must be from 5s to 5m' };

const url = secret.superRefine((setting, context) => {
  // The message shows no part of the URL, because it contains a password.
  const message = 'literal' in setting && urlError(setting.literal.reveal());
  if (message) context.addIssue({ code: 'custom', message });
});

export const storeOptions = z
  .strictObject({
    kind: z
      .enum(['sqlite', 'memory', 'postgres'], { error: 'must be sqlite, memory or postgres' })
      .default('sqlite')
      .describe(
        '`sqlite`: a file. `postgres`: a PostgreSQL database that a leader and its standbys share. `memory`: the state is lost when the process ends.',
      ),
    path: z
      .string()
      .refine(text => text !== '' && !text.includes('\0'), { error: 'must be the path of a file' })
      .default('./data/delivery-watch.db')
      .describe(
        'For `sqlite`: path of a file on a local disk, relative to the working directory. Only one agent may use the file. The agent creates the folder.',
      ),
    url: url
      .nullable()
      .default(null)
      .describe(
        'For `postgres`: the URL `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. docs/store.md lists the parameters of the URL.',
      ),
    schema: z
      .string({ error: 'must be a name' })
      .regex(/^[a-z_][a-z0-9_]{0,62}$/, { error: 'must be 1 to 63 of a-z, 0-9 and _, and not begin with a digit' })
      .refine(name => !name.startsWith('pg_'), { error: 'must not begin with pg_' })
      .default('delivery_watch')
      .describe('For `postgres`: schema that contains all tables, created if missing.'),
    lease: Duration.refine(ms => ms >= LEASE.min && ms <= LEASE.max, { error: LEASE.error })
      .prefault('15s')
      .describe('For `postgres`: a standby replaces a leader that has not renewed its lease for this time (5s to 5m).'),
    history: historyOptions.prefault({}),
  })
  .refine(({ kind, url }) => kind !== 'postgres' || url !== null, {
    path: ['url'],
    error: 'is required for store.kind: postgres',
  })
  .refine(({ kind, url }) => kind === 'postgres' || url === null, {
    path: ['kind'],
    error: 'must be postgres if store.url is set',
  });

export type StoreOptions = z.output<typeof storeOptions>;
