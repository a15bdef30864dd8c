import { StoreError } from './errors.ts';
import { createPostgresDatabase, type PostgresDeps, type PostgresSettings } from './postgres-database.ts';
import { requirePostgresSchema } from './postgres-schema.ts';

export interface PostgresState {
  readonly subject: string;
  /** Undefined if there is no schema yet and this role may create it. */
  readonly version: number | undefined;
  /** Replicas that renew their leases, with the number of accounts each holds. */
  readonly replicas: readonly { readonly url: string; readonly accounts: number }[];
}

/** Inspects the database without writing. Rejects with StoreError if an agent could not start with it. */
export async function inspectPostgres(settings: PostgresSettings, deps: PostgresDeps): Promise<PostgresState> {
  const database = createPostgresDatabase(settings, deps);
  const { subject, schema } = database;
  try {
    const [state] = await database.query(
      'read',
      `SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean AS standby,
         has_database_privilege(current_database(), 'CREATE') AS may_create,
         to_regnamespace($1) IS NOT NULL AS schema_exists`,
      [schema],
    );
    if (state?.standby === true) throw new StoreError('standby', subject);
    let version: number;
    try {
      version = await requirePostgresSchema(database);
    } catch (error) {
      if (!(error instanceof StoreError && error.reason === 'missing')) throw error;
      if (state?.may_create !== true && state?.schema_exists !== true) {
        throw new StoreError('refused', subject, 'the schema is missing, and this role may not create it');
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
