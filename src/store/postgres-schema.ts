import { StoreError } from './errors.ts';
import { LEASE_TABLE } from './lease-sql.ts';
import type { DatabaseQuery, PostgresDatabase } from './postgres-database.ts';

/** Version of the tables and their rows. A schema with another version is refused. */
const VERSION = 3;

/** `S` is the schema. With collation C, an index supports prefix searches. Free space allows updates without index changes. */
const TABLES = `CREATE TABLE S.rows (
     account text COLLATE "C" NOT NULL,
     key text COLLATE "C" NOT NULL,
     value text COLLATE "C" NOT NULL,
     PRIMARY KEY (account, key)
   ) WITH (fillfactor = 80);
   CREATE TABLE S.lanes (
     id text COLLATE "C" PRIMARY KEY,
     sequence bigint NOT NULL,
     at timestamptz NOT NULL DEFAULT now()
   ) WITH (fillfactor = 50);
   ${LEASE_TABLE}`;

/**
 * Returns the version; 0 if the schema is missing or empty. Rejects with StoreError for any version other than 0 and `VERSION`.
 */
export async function readSchema(
  database: PostgresDatabase,
  query: DatabaseQuery = (sql, values) => database.query('read', sql, values),
): Promise<{ version: number; exists: boolean }> {
  const { schema, subject } = database;
  const name = schema.slice(1, -1);
  const [found] = await query(
    `SELECT n.oid IS NOT NULL AS exists, to_regclass($1 || '.schema_version') IS NOT NULL AS ours,
       EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = n.oid) AS used, current_setting('server_encoding') AS encoding
     FROM (SELECT) AS one LEFT JOIN pg_namespace n ON n.nspname = $2`,
    [schema, name],
  );
  if (found?.encoding !== 'UTF8') throw new StoreError('encoding', subject, String(found?.encoding));
  const exists = found.exists === true;
  if (found.ours !== true) {
    if (found.used === true) throw new StoreError('foreign', `the schema ${name} of ${subject}`);
    return { version: 0, exists };
  }
  const [row] = await query(
    `SELECT max(version) AS version FROM ${schema}.schema_version WHERE program = 'delivery-watch'`,
  );
  if (row === undefined || row.version === null) throw new StoreError('foreign', `the schema ${name} of ${subject}`);
  const version = Number(row.version);
  if (version === VERSION) return { version, exists };
  const reason = version > VERSION ? 'newer' : 'older';
  throw new StoreError(reason, subject, `schema ${version}, this version has ${VERSION}`);
}

/** Creates the tables in one transaction, unless they exist. A lock makes processes that start together wait. */
export async function createPostgresSchema(database: PostgresDatabase): Promise<void> {
  const { schema } = database;
  if ((await readSchema(database)).version === VERSION) return;
  await database.transaction(async query => {
    await query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [`delivery-watch ${schema}`]);
    const { version, exists } = await readSchema(database, query);
    if (version === VERSION) return;
    // Create the schema only if it is missing: its owner may lack the privilege to create schemas.
    if (!exists) await query(`CREATE SCHEMA ${schema}`);
    await query(
      `CREATE TABLE ${schema}.schema_version (program text NOT NULL, version int PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())`,
    );
    for (const statement of TABLES.replaceAll('S.', `${schema}.`).split(';')) await query(statement);
    await query(`INSERT INTO ${schema}.schema_version (program, version) VALUES ('delivery-watch', $1)`, [VERSION]);
  });
}
