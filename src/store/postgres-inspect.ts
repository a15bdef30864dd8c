import { StoreError } from './errors.ts';
import { leaseStatements } from './lease-sql.ts';
import { createPostgresDatabase, type PostgresDeps, type PostgresSettings } from './postgres-database.ts';
import { readSchema } from './postgres-schema.ts';

/** Inspects the database without writing. Rejects with StoreError if an agent could not start with it. */
export async function inspectPostgres(settings: PostgresSettings, deps: PostgresDeps) {
  const database = createPostgresDatabase(settings, deps);
  const { subject, schema } = database;
  try {
    const [state] = await database.query(
      'read',
      `SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean AS standby,
         has_database_privilege(current_database(), 'CREATE') AS may_create`,
    );
    if (state?.standby === true) throw new StoreError('standby', subject);
    const { version, exists } = await readSchema(database);
    if (version === 0) {
      // The agent creates the tables when it starts.
      if (exists || state?.may_create === true) return { subject, version: undefined, leader: undefined };
      throw new StoreError('refused', subject, 'the schema is missing, and this role may not create it');
    }
    const [leader] = await database.query('read', leaseStatements(schema).leader);
    return { subject, version, leader: leader && String(leader.url) };
  } finally {
    await database.close();
  }
}
