import { StoreError } from './errors.ts';
import { createPostgresDatabase, type PostgresDeps, type PostgresSettings } from './postgres-database.ts';
import { requireSchema } from './postgres-schema.ts';

export interface PostgresLook {
  readonly subject: string;
  /** Undefined where there is none yet, and this role may create it. */
  readonly version: number | undefined;
  /** Those that renew, by URL, with how many accounts each holds. */
  readonly replicas: readonly { readonly url: string; readonly accounts: number }[];
}

/** Looks, beside agents that run, and writes nothing. Rejects with StoreError where an agent could not start with it. */
export async function lookAtPostgres(settings: PostgresSettings, deps: PostgresDeps): Promise<PostgresLook> {
  const database = createPostgresDatabase(settings, deps);
  const { subject, schema } = database;
  try {
    const [state] = await database.query(
      'read',
      `SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean AS standby,
         has_database_privilege(current_database(), 'CREATE') AS may_create,
         to_regnamespace($1) IS NOT NULL AS is_there`,
      [schema],
    );
    if (state?.standby === true) throw new StoreError('standby', subject);
    let version: number;
    try {
      version = await requireSchema(database);
    } catch (error) {
      if (!(error instanceof StoreError && error.reason === 'missing')) throw error;
      if (state?.may_create !== true && state?.is_there !== true) {
        throw new StoreError('refused', subject, 'there is no schema yet, and it may not create one');
      }
      return { subject, version: undefined, replicas: [] };
    }
    const rows = await database.query(
      'read',
      `SELECT url, count(account) AS accounts FROM ${schema}.replicas LEFT JOIN ${schema}.leases ON holder = id AND account <> ''
       WHERE expires > now() GROUP BY id, url ORDER BY url`,
    );
    return { subject, version, replicas: rows.map(row => ({ url: String(row.url), accounts: Number(row.accounts) })) };
  } finally {
    await database.close();
  }
}
