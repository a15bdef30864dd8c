import { randomUUID } from 'node:crypto';
import type { Change } from '../model/change.ts';
import { isUndone } from './errors.ts';
import type { PostgresDatabase } from './postgres-database.ts';
import { escapeText, textArray } from './postgres-text.ts';
import type { Guard } from './store.ts';

export interface Fence {
  /** Returns the epoch under which this process holds an account; undefined if it does not hold it. */
  epochOf(account: string): string | undefined;
  /**
   * A parameterless query for the rows of `given (account text, epoch bigint)` that this process still holds. It locks
   * them until the transaction ends, so that no replica takes them over before then.
   */
  readonly heldSql: string;
}

interface Commit {
  readonly account: string;
  /** The account's epoch when the commit was requested. */
  readonly epoch: string | undefined;
  readonly changes: readonly Change[];
  /** A commit with a guard is written by a separate statement. */
  readonly guard?: Guard | undefined;
}

type CommitResult = 'written' | 'not_held' | 'guard_failed';

const NOTHING_HELD = 'SELECT account, epoch FROM given WHERE false';

/**
 * Locks the guard's row if it has the required value. A statement that waited for a change of the row compares the new
 * value (READ COMMITTED); later changes wait until the guarded rows are committed.
 */
const guardSql = (schema: string) =>
  `SELECT key FROM ${schema}.rows WHERE account = $8 AND key = $9 AND value = $10 FOR SHARE`;

/** Returns the statement that writes commits in one round trip. It writes nothing if the lane's sequence differs from $2. */
const writeSql = (schema: string, heldSql: string, guard: string) => `
  WITH lane AS (
    UPDATE ${schema}.lanes SET sequence = sequence + 1, at = now() WHERE id = $1 AND sequence = $2 RETURNING id
  ), given AS MATERIALIZED (
    SELECT * FROM unnest($3::text[], $4::bigint[]) WITH ORDINALITY AS given (account, epoch, number)
  ), held AS MATERIALIZED (
    ${heldSql}
  ), guard AS MATERIALIZED (
    ${guard}
  ), allowed AS MATERIALIZED (
    SELECT account, number FROM given
    WHERE EXISTS (SELECT FROM lane) AND EXISTS (SELECT FROM guard)
      AND (account = '' OR (account, epoch) IN (SELECT held.account, held.epoch FROM held))
  ), change AS MATERIALIZED (
    SELECT account, key, value FROM unnest($5::int[], $6::text[], $7::text[]) AS change (number, key, value)
    JOIN allowed USING (number)
  ), removed AS (
    DELETE FROM ${schema}.rows USING change
    WHERE change.value IS NULL AND rows.account = change.account AND rows.key = change.key
  ), put AS (
    INSERT INTO ${schema}.rows (account, key, value)
    SELECT account, key, value FROM change WHERE value IS NOT NULL ORDER BY account, key
    ON CONFLICT (account, key) DO UPDATE SET value = excluded.value
  )
  SELECT EXISTS (SELECT FROM lane) AS counted, EXISTS (SELECT FROM guard) AS unchanged, ARRAY(SELECT number::int FROM allowed) AS numbers`;

const claimSql = (schema: string) => `
  WITH removed AS (
    DELETE FROM ${schema}.lanes WHERE id = ANY ($1::text[]) OR at < now() - interval '30 days'
  )
  INSERT INTO ${schema}.lanes (id, sequence) VALUES ($2, 0)`;

/** Builds the statement's parameters: each account and epoch once, and only the last change of each row. */
function gather(commits: readonly Commit[]) {
  const holdings = new Map<string, { number: number; account: string; epoch: string | undefined }>();
  const changes = new Map<string, { number: number; key: string; value: string | null }>();
  const numbers = commits.map(({ account, epoch, changes: own }) => {
    const name = `${epoch ?? ''} ${account}`;
    const { number } = holdings.get(name) ?? { number: holdings.size + 1 };
    holdings.set(name, { number, account, epoch });
    for (const { key, value } of own) {
      const row = { number, key: escapeText(key), value: value === null ? null : escapeText(value) };
      changes.set(`${number} ${key}`, row);
    }
    return number;
  });
  const [held, changed] = [[...holdings.values()], [...changes.values()]];
  const values = [
    textArray(held.map(({ account }) => escapeText(account))),
    held.map(({ epoch }) => epoch ?? null),
    changed.map(({ number }) => number),
    textArray(changed.map(({ key }) => key)),
    textArray(changed.map(({ value }) => value)),
  ];
  return { numbers, values };
}

/**
 * Creates a lane, which writes commits in order. A broken connection may leave a statement that is executed much later, after
 * newer commits. Each statement therefore increments the lane's sequence, and a delayed one finds a different value. After an
 * unknown outcome the lane continues under a new id, and the old one is removed.
 */
export function createLane(database: PostgresDatabase, fence: Fence | undefined) {
  const { schema } = database;
  const held = fence?.heldSql ?? NOTHING_HELD;
  const sql = {
    write: writeSql(schema, held, 'SELECT'),
    guarded: writeSql(schema, held, guardSql(schema)),
    claim: claimSql(schema),
  };
  /** Lane ids that may be in the database. */
  let tried: string[] = [];
  /** Current id; undefined if the lane must be claimed before the next write. */
  let id: string | undefined;
  /** Number of statements known to have taken effect under this id. */
  let sequence = 0;

  async function claim(): Promise<void> {
    const next = randomUUID();
    const before = tried;
    tried = [...before, next];
    await database.query('write', sql.claim, [before, next]);
    [tried, id, sequence] = [[next], next, 0];
  }

  /** Whether this process lost the account after the commit was requested. The database may not reflect the loss yet. */
  const isLost = ({ account, epoch }: Commit) => epoch !== undefined && fence?.epochOf(account) !== epoch;

  async function write(all: readonly Commit[]): Promise<readonly CommitResult[]> {
    if (id === undefined) await claim();
    const commits = all.filter(commit => !isLost(commit));
    const { numbers, values } = gather(commits);
    let rows: Awaited<ReturnType<PostgresDatabase['query']>>;
    try {
      const [{ guard } = {}] = commits;
      const compared = guard ? [guard.account, guard.key, guard.value].map(escapeText) : [];
      rows = await database.query('write', guard ? sql.guarded : sql.write, [id, sequence, ...values, ...compared]);
    } catch (error) {
      if (!isUndone(error)) id = undefined;
      throw error;
    }
    const [result] = rows;
    if (result?.counted !== true) {
      // The lane's row is missing, so the statement wrote no changes. Another agent may have deleted the row as abandoned.
      id = undefined;
      return write(all);
    }
    sequence += 1;
    const allowed = new Set(Array.isArray(result.numbers) ? result.numbers.map(Number) : []);
    const written = new Set(commits.filter((_, index) => allowed.has(numbers[index] ?? 0)));
    const refused = result.unchanged === true ? 'not_held' : 'guard_failed';
    return all.map(commit => (written.has(commit) ? 'written' : isLost(commit) ? 'not_held' : refused));
  }

  return {
    claim,
    write,
    /** Whether a write failed with an unknown outcome and may take effect until the next write returns. */
    isUnsettled: (): boolean => id === undefined && tried.length > 0,
    async close(): Promise<void> {
      if (tried.length === 0) return;
      await database.query('write', `DELETE FROM ${schema}.lanes WHERE id = ANY ($1::text[])`, [tried]);
    },
  };
}
