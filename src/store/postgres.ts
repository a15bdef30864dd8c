import type { Change } from '../model/change.ts';
import { checkChanges, checkText, endOfPrefix, weightOf } from './changes.ts';
import { isUndone, StoreError } from './errors.ts';
import { createGroupCommit } from './group-commit.ts';
import type { LeaseParts } from './lease.ts';
import { leaseStatements } from './lease-sql.ts';
import {
  createPostgresDatabase,
  type PostgresDatabase,
  type PostgresDeps,
  type PostgresSettings,
} from './postgres-database.ts';
import { affectsAll } from './postgres-errors.ts';
import { createLane } from './postgres-lane.ts';
import { createPostgresSchema, readSchema } from './postgres-schema.ts';
import { escapeText, unescapeText } from './postgres-text.ts';
import { type Guard, NO_ACCOUNT, type Store } from './store.ts';

const GROUP_LIMIT = 2 ** 20;
/** Lanes write concurrently. Each account always uses the same lane, which keeps its commits in order. */
const LANES = 2;

function laneOf(account: string): number {
  let sum = 0;
  for (let at = 0; at < account.length; at += 1) sum = (sum * 31 + account.charCodeAt(at)) % 65_521;
  return sum % LANES;
}

/** Selects the value of key $1 of every account. OFFSET 0 forces an index lookup per account; otherwise all rows would be read. */
const valuesOfSql = (schema: string) => `
  WITH RECURSIVE known (account) AS (
    (SELECT min(account) FROM ${schema}.rows)
    UNION ALL
    SELECT (SELECT min(account) FROM ${schema}.rows WHERE rows.account > known.account) FROM known WHERE account IS NOT NULL
  )
  SELECT account, value FROM known CROSS JOIN LATERAL
    (SELECT value FROM ${schema}.rows WHERE rows.account = known.account AND key = $1 OFFSET 0) AS found`;

function createPostgresStore(database: PostgresDatabase, { fence, lease }: Partial<LeaseParts>): Store {
  const { schema, subject } = database;
  const where = `FROM ${schema}.rows WHERE account = $1 AND key >= $2`;
  let closed = false;
  const lanes = Array.from({ length: LANES }, () => createLane(database, fence));
  const queues = lanes.map(lane => createGroupCommit(lane.write, { limit: GROUP_LIMIT, affectsAll }));

  function assertOpen(): void {
    if (closed) throw new StoreError('closed', subject);
  }

  /** After a commit with an unknown outcome, writes an empty commit, so that the earlier one cannot take effect after the read. */
  async function settle(lane: number): Promise<void> {
    if (!lanes[lane]?.isUnsettled()) return;
    try {
      await queues[lane]?.add({ account: NO_ACCOUNT, epoch: undefined, changes: [] }, Number.POSITIVE_INFINITY);
    } catch (error) {
      // A database that refuses this commit, such as a standby, refuses the earlier one, too.
      if (!isUndone(error)) throw error;
    }
  }

  async function rowsOf(what: string, account: string, prefix: string) {
    assertOpen();
    checkText(account, 'an account');
    checkText(prefix, 'a prefix');
    await settle(laneOf(account));
    const end = endOfPrefix(prefix);
    const range = [account, prefix, ...(end === undefined ? [] : [end])].map(escapeText);
    const sql = `SELECT key, ${what} AS value ${where}${end === undefined ? '' : ' AND key < $3'}`;
    return database.query('read', sql, range);
  }

  /** Adds a commit to its lane. `epoch`: undefined for commands, which are written by separate statements. */
  async function write(account: string, epoch: string | undefined, changes: readonly Change[], guard?: Guard) {
    // Copy the changes, because the caller may modify them before they are written.
    const own = changes.map((change): Change => ({ ...change }));
    const commit = { account, epoch, changes: own, guard: guard && { ...guard } };
    const isAlone = guard !== undefined || epoch === undefined;
    const written = await queues[laneOf(account)]?.add(commit, isAlone ? Number.POSITIVE_INFINITY : weightOf(changes));
    if (written === 'guard_failed') throw new StoreError('guard_failed', 'the row of the guard');
    if (written !== 'written') throw new StoreError('not_held', subject);
  }

  return {
    ...(lease ? { lease } : {}),
    async scan(account, prefix) {
      const rows = await rowsOf('value', account, prefix);
      return new Map(rows.map(({ key, value }) => [unescapeText(String(key)), unescapeText(String(value))]));
    },
    async sizes(account, prefix) {
      const rows = await rowsOf('octet_length(value)', account, prefix);
      return new Map(rows.map(({ key, value }) => [unescapeText(String(key)), Number(value)]));
    },
    async valuesOf(key) {
      assertOpen();
      checkText(key, 'a key');
      const rows = await database.query('read', valuesOfSql(schema), [escapeText(key)]);
      return new Map(rows.map(({ account, value }) => [String(account), unescapeText(String(value))]));
    },
    async agents() {
      assertOpen();
      return (await database.query('read', leaseStatements(schema).leader)).map(({ url }) => String(url));
    },
    async commit(account, changes, guard) {
      assertOpen();
      checkChanges(account, changes, guard);
      const epoch = fence?.epoch();
      if (epoch === undefined) throw new StoreError('not_held', subject);
      await write(account, epoch, changes, guard);
    },
    async command(changes, guard) {
      assertOpen();
      checkChanges(NO_ACCOUNT, changes, guard);
      await write(NO_ACCOUNT, undefined, changes, guard);
    },
    async create(key, value) {
      assertOpen();
      checkChanges(NO_ACCOUNT, [{ key, value }]);
      const row = [NO_ACCOUNT, key, value].map(escapeText);
      await database.query(
        'write',
        `INSERT INTO ${schema}.rows (account, key, value) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
        row,
      );
    },
    async close() {
      if (closed) return;
      closed = true;
      await database.close(async () => {
        await Promise.all(queues.map(queue => queue.ended()));
        await Promise.allSettled(lanes.map(lane => lane.close()));
      });
    },
  };
}

export interface PostgresStoreDeps extends PostgresDeps {
  leaseOf?(database: PostgresDatabase): LeaseParts;
}

/**
 * Opens a store that a leader and its standbys share. Concurrent commits share one statement. After `away`, `slow` and `io`, a
 * commit may still be written as a whole until the account's next commit or scan returns, but not later. Rejects with StoreError.
 */
export const openPostgresStore = (settings: PostgresSettings, deps: PostgresStoreDeps): Promise<Store> =>
  opened(settings, deps, async database => {
    await createPostgresSchema(database);
    const store = createPostgresStore(database, deps.leaseOf?.(database) ?? {});
    // Proves at startup that writing works.
    await store.command([]);
    return store;
  });

/** Opens the same store for another process, which may write only command rows. Rejects with StoreError. */
export async function attachPostgresStore(settings: PostgresSettings, deps: PostgresDeps): Promise<Store> {
  return opened(settings, deps, async database => {
    const { version } = await readSchema(database);
    if (version === 0) {
      throw new StoreError('missing', `the schema ${database.schema.slice(1, -1)} of ${database.subject}`);
    }
    return createPostgresStore(database, {});
  });
}

async function opened<T>(
  settings: PostgresSettings,
  deps: PostgresDeps,
  open: (database: PostgresDatabase) => Promise<T>,
): Promise<T> {
  const database = createPostgresDatabase(settings, deps);
  try {
    return await open(database);
  } catch (error) {
    await database.close();
    throw error;
  }
}

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
