import { StoreError } from './errors.ts';
import { LEASE_TABLES } from './leases-sql.ts';
import type { PostgresDatabase, Row } from './postgres-database.ts';

/** Number n, from 1, takes the schema from n - 1 to n. Only ever append: databases in use have run the earlier ones. `S` is the schema. */
const MIGRATIONS: readonly string[] = [
  // Collation C: text compares by bytes, case included, and an index serves prefixes. Space in each page keeps updates out of the index.
  `CREATE TABLE S.rows (
     account text COLLATE "C" NOT NULL,
     key text COLLATE "C" NOT NULL,
     value text COLLATE "C" NOT NULL,
     PRIMARY KEY (account, key)
   ) WITH (fillfactor = 80);
   CREATE TABLE S.lanes (
     id text COLLATE "C" PRIMARY KEY,
     sequence bigint NOT NULL,
     at timestamptz NOT NULL DEFAULT now()
   ) WITH (fillfactor = 50)`,
  LEASE_TABLES,
];

type Query = (sql: string, values?: readonly unknown[]) => Promise<readonly Row[]>;

/** What the schema holds. Version 0: nothing of ours, and nothing of others. */
async function versionOf(
  query: Query,
  { schema, subject }: PostgresDatabase,
): Promise<{ version: number; exists: boolean }> {
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
  return { version: Number(row.version), exists };
}

function checkVersion(version: number, subject: string): void {
  if (version <= MIGRATIONS.length) return;
  throw new StoreError('newer', subject, `schema ${version}, this version knows ${MIGRATIONS.length}`);
}

/** Rejects with StoreError when the database is not of this very version. Changes nothing. Gives the version. */
export async function requireSchema(database: PostgresDatabase): Promise<number> {
  const { subject, schema } = database;
  const { version } = await versionOf((sql, values) => database.query('read', sql, values), database);
  checkVersion(version, subject);
  if (version === 0) throw new StoreError('missing', `the schema ${schema.slice(1, -1)} of ${subject}`);
  if (version < MIGRATIONS.length) {
    throw new StoreError('older', subject, `schema ${version}, this version has ${MIGRATIONS.length}`);
  }
  return version;
}

/** One step, or none where another replica did it meanwhile. Gives the version that is there then. */
function step(database: PostgresDatabase): Promise<number> {
  const { schema, subject } = database;
  return database.transaction(async query => {
    await query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [`delivery-watch ${schema}`]);
    const { version, exists } = await versionOf(query, database);
    checkVersion(version, subject);
    const migration = MIGRATIONS[version];
    if (migration === undefined) return version;
    if (version === 0) {
      // Only where it is missing: it needs a privilege that a role with a schema of its own does without.
      if (!exists) await query(`CREATE SCHEMA ${schema}`);
      await query(
        `CREATE TABLE ${schema}.schema_version (program text NOT NULL, version int PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())`,
      );
    }
    for (const statement of migration.replaceAll('S.', `${schema}.`).split(';')) await query(statement);
    await query(`INSERT INTO ${schema}.schema_version (program, version) VALUES ('delivery-watch', $1)`, [version + 1]);
    return version + 1;
  });
}

/** Brings the schema up to date, one transaction a step, each under a lock that one replica has at a time. Rejects with StoreError. */
export async function migrate(database: PostgresDatabase): Promise<void> {
  let { version } = await versionOf((sql, values) => database.query('read', sql, values), database);
  checkVersion(version, database.subject);
  while (version < MIGRATIONS.length) version = await step(database);
}
