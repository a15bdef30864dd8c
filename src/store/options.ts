import { z } from 'zod';
import { Duration, DurationOrZero } from '../kit/duration.ts';
import { secret } from '../kit/secret.ts';
import { faultOfUrl } from './postgres-url.ts';

export { faultOfUrl, warningOfUrl } from './postgres-url.ts';

const historyOptions = z.strictObject({
  keep: DurationOrZero.prefault('48h').describe(
    'How long samples are kept, one a minute, for charts and for the windows of `growth` and `ratio` conditions. `0s`: none in the store.',
  ),
  maxMB: z
    .int({ error: 'must be a whole number from 1 to 100000' })
    .min(1, { error: 'must be a whole number from 1 to 100000' })
    .max(100_000, { error: 'must be a whole number from 1 to 100000' })
    .default(100)
    .describe(
      'Megabytes (10^6 bytes) that the history of all accounts may take, each the same share. Where a sample a minute does not fit, older ones are thinned: to one in 2, 5, 10, 15, 30 minutes.',
    ),
});

const LEASE = { least: 5000, most: 300_000, error: 'must be from 5s to 5m' };

const url = secret.superRefine((setting, context) => {
  // Nothing of what is there is said: it holds a password.
  const message = 'literal' in setting && faultOfUrl(setting.literal.reveal());
  if (message) context.addIssue({ code: 'custom', message });
});

export const storeOptions = z
  .strictObject({
    kind: z
      .enum(['sqlite', 'memory', 'postgres'], { error: 'must be sqlite, memory or postgres' })
      .default('sqlite')
      .describe(
        '`sqlite`: state in a file, survives restarts. `postgres`: state in a PostgreSQL database, which several replicas share. `memory`: state is lost when the process ends.',
      ),
    path: z
      .string({ error: 'must be the path of a file' })
      .refine(text => text !== '' && !text.includes('\0'), { error: 'must be the path of a file' })
      .default('./data/delivery-watch.db')
      .describe(
        'File for `sqlite`, on a local disk; its folder is created. Only one agent may use it at a time. Relative to the working directory.',
      ),
    url: url
      .nullable()
      .default(null)
      .describe(
        'Database for `postgres`: `{ env: NAME }` or `{ file: PATH }` of `postgres://USER:PASSWORD@HOST:PORT/DATABASE`; parameters are `sslmode` (`disable`, `require`, `verify-ca`, `verify-full`; default: `disable`), `sslrootcert`, `sslcert` and `sslkey` (files in PEM), and `host` (folder of a Unix socket).',
      ),
    schema: z
      .string({ error: 'must be a name' })
      .regex(/^[a-z_][a-z0-9_]{0,62}$/, { error: 'must be up to 63 of a-z, 0-9 and _, and begin with no digit' })
      .refine(name => !name.startsWith('pg_'), { error: 'must not begin with pg_' })
      .default('delivery_watch')
      .describe('Schema of that database that all tables are in, for `postgres`; it is created where it is missing.'),
    lease: Duration.refine(ms => ms >= LEASE.least && ms <= LEASE.most, { error: LEASE.error })
      .prefault('15s')
      .describe(
        'How long a replica holds its accounts without renewing, for `postgres`. Other replicas take over the accounts of a killed one within this time and a fifth of it. From 5s to 5m.',
      ),
    history: historyOptions.prefault({}).describe('Samples of each account, for the page and for alert conditions.'),
  })
  .refine(({ kind, url }) => kind !== 'postgres' || url !== null, {
    path: ['url'],
    error: 'is required for store.kind: postgres',
  })
  .refine(({ kind, url }) => kind === 'postgres' || url === null, {
    path: ['kind'],
    error: 'must be postgres where store.url is set',
  });

export type StoreOptions = z.output<typeof storeOptions>;
