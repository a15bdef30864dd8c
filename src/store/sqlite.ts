import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Change } from '../model/change.ts';
import { checkChanges, checkText, endOfPrefix, weightOf } from './changes.ts';
import { attachDatabase, type Database, openDatabase } from './database.ts';
import { StoreError, toStoreError, withStoreErrors } from './errors.ts';
import { createGroupCommit } from './group-commit.ts';
import { type Guard, NO_ACCOUNT, type Store } from './store.ts';

/** Unlike LIKE, comparisons use code points and the primary key, and have no wildcards. */
export const SCAN = 'SELECT key, value FROM rows WHERE account = ? AND key >= ? AND key < ?';
/** Selects sizes without reading large values: SQLite stores the length before the text. */
const SIZES = SCAN.replace('value', 'octet_length(value) AS value');
/** Upper bound of all text: SQLite sorts blobs after text. */
const ABOVE_TEXT = new Uint8Array();
const PUT = 'INSERT INTO rows (account, key, value) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value';
const CREATE = PUT.replace(/DO UPDATE.*/, 'DO NOTHING');
const GET = 'SELECT value FROM rows WHERE account = ? AND key = ?';
/** Looks up the key account by account: a scan of all rows would read gigabytes. */
const BY_KEY = `
  WITH RECURSIVE known (account) AS (
    SELECT min(account) FROM rows
    UNION ALL SELECT (SELECT min(rows.account) FROM rows WHERE rows.account > known.account) FROM known WHERE account IS NOT NULL
  )
  SELECT account, value FROM known JOIN rows USING (account) WHERE key = ?`;
const REMOVE = 'DELETE FROM rows WHERE account = ? AND key = ?';

/** Maximum size of a group or of a slice of a larger commit (characters): about 20 ms of writing. */
const GROUP_LIMIT = 2 ** 19;
/** Pause between transactions (ms): 0.1 per committing account, at most 50. Hundreds a second would block the process. */
const [SPACING_PER_ACCOUNT, MAX_SPACING] = [0.1, 50];
/** Minimum number of committing accounts at which commits are delayed. */
const MANY_ACCOUNTS = 20;

interface Commit {
  readonly account: string;
  readonly changes: readonly Change[];
  readonly guard?: Guard | undefined;
  readonly isCreation?: boolean;
}

/**
 * Returns a function that writes one transaction in slices, yielding to the event loop between them, and returns whether each
 * commit's guard held.
 */
function createWrite({ db, assertInPlace }: Pick<Database, 'db' | 'assertInPlace'>) {
  const put = db.prepare(PUT);
  const create = db.prepare(CREATE);
  const get = db.prepare(GET);
  const remove = db.prepare(REMOVE);
  return async (commits: readonly Commit[]): Promise<readonly boolean[]> => {
    let weight = 0;
    const written: boolean[] = [];
    db.exec('BEGIN IMMEDIATE');
    try {
      for (const { account, changes, guard, isCreation } of commits) {
        const isAllowed = guard === undefined || get.get(guard.account, guard.key)?.value === guard.value;
        written.push(isAllowed);
        for (const change of isAllowed ? changes : []) {
          const { key, value } = change;
          if (value === null) remove.run(account, key);
          else (isCreation ? create : put).run(account, key, value);
          weight += weightOf([change]);
          if (weight < GROUP_LIMIT) continue;
          weight = 0;
          await nextTurn();
        }
      }
      assertInPlace();
      db.exec('COMMIT');
      return written;
    } catch (error) {
      // SQLite itself rolls back after a full disk or a failed read.
      if (db.isTransaction) db.exec('ROLLBACK');
      throw error;
    }
  };
}

function createSqliteStore({ db, file, assertInPlace, close }: Database): Store {
  const scan = db.prepare(SCAN);
  const sizes = db.prepare(SIZES);
  const byKey = db.prepare(BY_KEY);
  const accounts = new Set<string>();
  let closed = false;

  function assertOpen(): void {
    if (closed) throw new StoreError('closed', `the store ${file}`);
  }

  const write = createWrite({ db, assertInPlace });
  // A locked database fails all queued commits. Otherwise each of them would block the process.
  const isLocked = (error: unknown) => {
    const converted = toStoreError(error, file);
    return converted instanceof StoreError && converted.reason === 'locked';
  };
  const spacing = () =>
    accounts.size < MANY_ACCOUNTS ? 0 : Math.min(accounts.size * SPACING_PER_ACCOUNT, MAX_SPACING);
  const groups = createGroupCommit(write, { limit: GROUP_LIMIT, affectsAll: isLocked, spacing });

  async function rowsOf(which: typeof scan, account: string, prefix: string) {
    checkText(account, 'an account');
    checkText(prefix, 'a prefix');
    assertOpen();
    // Wait for the current transaction, because this connection would read its uncommitted rows.
    await groups.settled();
    return withStoreErrors(file, () => which.all(account, prefix, endOfPrefix(prefix) ?? ABOVE_TEXT));
  }

  async function add(commit: Commit): Promise<void> {
    const { account, changes, guard } = commit;
    assertOpen();
    checkChanges(account, changes, guard);
    accounts.add(account);
    const isWritten = await groups.add(commit, weightOf(changes)).catch(error => {
      throw toStoreError(error, file);
    });
    if (!isWritten) throw new StoreError('guard_failed', 'the row of the guard');
  }

  // Copies the changes, because the caller may modify them before they are written.
  const commit = (account: string, changes: readonly Change[], guard?: Guard) =>
    add({ account, changes: changes.map(change => ({ ...change })), guard: guard && { ...guard } });

  return {
    async scan(account, prefix) {
      const rows = await rowsOf(scan, account, prefix);
      return new Map(rows.map(({ key, value }) => [key as string, value as string]));
    },
    async sizes(account, prefix) {
      const rows = await rowsOf(sizes, account, prefix);
      return new Map(rows.map(({ key, value }) => [key as string, Number(value)]));
    },
    async valuesOf(key) {
      checkText(key, 'a key');
      assertOpen();
      await groups.settled();
      const rows = withStoreErrors(file, () => byKey.all(key));
      return new Map(rows.map(({ account, value }) => [String(account), String(value)]));
    },
    commit,
    command: (changes, guard) => commit(NO_ACCOUNT, changes, guard),
    create: (key, value) => add({ account: NO_ACCOUNT, changes: [{ key, value }], isCreation: true }),
    async close() {
      if (closed) return;
      closed = true;
      await groups.ended();
      withStoreErrors(file, close);
    },
  };
}

/**
 * Opens a store for one process; others may read it. A commit is synced before it returns. Concurrent commits share a transaction
 * and its fsync, which blocks. A commit that failed with `io` may still appear if the process dies right after. Rejects with
 * StoreError.
 */
export async function openSqliteStore({ path }: { path: string }): Promise<Store> {
  return open(openDatabase(path));
}

/** Opens the same store for another process. Blocks for up to 5 s while the agent writes. Rejects with StoreError. */
export async function attachSqliteStore({ path }: { path: string }): Promise<Store> {
  return open(attachDatabase(path));
}

function open(database: Database): Store {
  try {
    return createSqliteStore(database);
  } catch (error) {
    database.close();
    throw toStoreError(error, database.file);
  }
}
