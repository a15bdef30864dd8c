import { randomUUID } from 'node:crypto';
import type { Change } from '../model/change.ts';
import { isUndone } from './errors.ts';
import type { PostgresDatabase } from './postgres-database.ts';
import { escapeText, textArray } from './postgres-text.ts';
import type { Guard } from './store.ts';

export interface Fence {
  /** Returns the epoch in which this process has the lease; undefined if it does not have it. */
  epoch(): string | undefined;
  /**
   * Returns a parameterless query for a row that exists while this process has the lease in an epoch. It locks the row until
   * the transaction ends, so that no process takes the lease over before then.
   */
  heldSql(epoch: string): string;
}

interface Commit {
  readonly account: string;
  /** The epoch when the commit was requested; undefined for a command, which needs no lease. */
  readonly epoch: string | undefined;
  readonly changes: readonly Change[];
  readonly guard?: Guard | undefined;
}

/**
 * Locks the guard's row if it has the required value. A statement that waited for a change of the row compares the new
 * value (READ COMMITTED); later changes wait until the guarded rows are committed.
 */
const guardSql = (schema: string) =>
  `SELECT key FROM ${schema}.rows WHERE account = $6 AND key = $7 AND value = $8 FOR SHARE`;

/**
 * Returns the statement that writes commits in one round trip: all of them, or none if the lane's sequence differs from $2 or if
 * one of the queries `held` and `guard` returns no row.
 */
const writeSql = (schema: string, held: string, guard: string) => `
  WITH lane AS (
    UPDATE ${schema}.lanes SET sequence = sequence + 1, at = now() WHERE id = $1 AND sequence = $2 RETURNING id
  ), held AS MATERIALIZED (
    ${held}
  ), guard AS MATERIALIZED (
    ${guard}
  ), change AS MATERIALIZED (
    SELECT account, key, value FROM unnest($3::text[], $4::text[], $5::text[]) AS change (account, key, value)
    WHERE EXISTS (SELECT FROM lane) AND EXISTS (SELECT FROM held) AND EXISTS (SELECT FROM guard)
  ), removed AS (
    DELETE FROM ${schema}.rows USING change
    WHERE change.value IS NULL AND rows.account = change.account AND rows.key = change.key
  ), put AS (
    INSERT INTO ${schema}.rows (account, key, value)
    SELECT account, key, value FROM change WHERE value IS NOT NULL ORDER BY account, key
    ON CONFLICT (account, key) DO UPDATE SET value = excluded.value
  )
  SELECT EXISTS (SELECT FROM lane) AS counted, EXISTS (SELECT FROM held) AS held, EXISTS (SELECT FROM guard) AS unchanged`;

const claimSql = (schema: string) => `
  WITH removed AS (
    DELETE FROM ${schema}.lanes WHERE id = ANY ($1::text[]) OR at < now() - interval '30 days'
  )
  INSERT INTO ${schema}.lanes (id, sequence) VALUES ($2, 0)`;

/** Builds the statement's parameters: only the last change of each row. */
function valuesOf(commits: readonly Commit[]) {
  const rows = new Map<string, { account: string; key: string; value: string | null }>();
  for (const { account, changes } of commits) {
    for (const { key, value } of changes) {
      const row = {
        account: escapeText(account),
        key: escapeText(key),
        value: value === null ? null : escapeText(value),
      };
      rows.set(`${account} ${key}`, row);
    }
  }
  const all = [...rows.values()];
  return [
    textArray(all.map(({ account }) => account)),
    textArray(all.map(({ key }) => key)),
    textArray(all.map(({ value }) => value)),
  ];
}

/**
 * Creates a lane, which writes commits in order. A broken connection may leave a statement that is executed much later, after
 * newer commits. Each statement therefore increments the lane's sequence, and a delayed one finds a different value. After an
 * unknown outcome the lane continues under a new id, and the old one is removed.
 */
export function createLane(database: PostgresDatabase, fence: Fence | undefined) {
  const { schema } = database;
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
    await database.query('write', claimSql(schema), [before, next]);
    [tried, id, sequence] = [[next], next, 0];
  }

  /** Writes commits of one epoch. A command or a commit with a guard must be the only one. */
  async function write(commits: readonly Commit[]): Promise<readonly ('written' | 'not_held' | 'guard_failed')[]> {
    const [{ epoch, guard } = {}] = commits;
    // The lease ended after the commit was requested. The database may not reflect the end yet.
    if (epoch !== undefined && fence?.epoch() !== epoch) return commits.map(() => 'not_held');
    if (id === undefined) await claim();
    const held = epoch === undefined || !fence ? 'SELECT' : fence.heldSql(epoch);
    const sql = writeSql(schema, held, guard ? guardSql(schema) : 'SELECT');
    const compared = guard ? [guard.account, guard.key, guard.value].map(escapeText) : [];
    let rows: Awaited<ReturnType<PostgresDatabase['query']>>;
    try {
      rows = await database.query('write', sql, [id, sequence, ...valuesOf(commits), ...compared]);
    } catch (error) {
      if (!isUndone(error)) id = undefined;
      throw error;
    }
    const [result] = rows;
    if (result?.counted !== true) {
      // The lane's row is missing, so the statement wrote no changes. Another agent may have deleted the row as abandoned.
      id = undefined;
      return write(commits);
    }
    sequence += 1;
    const outcome = result.held !== true ? 'not_held' : result.unchanged === true ? 'written' : 'guard_failed';
    return commits.map(() => outcome);
  }

  return {
    write,
    /** Whether a write failed with an unknown outcome and may take effect until the next write returns. */
    isUnsettled: (): boolean => id === undefined && tried.length > 0,
    async close(): Promise<void> {
      if (tried.length === 0) return;
      await database.query('write', `DELETE FROM ${schema}.lanes WHERE id = ANY ($1::text[])`, [tried]);
    },
  };
}
