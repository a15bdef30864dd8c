/**
 * `S` is the schema. The table has one row. `expires` and `renewed` are times of the database's clock. Renewals change no
 * indexed column, so they never wait for commits, which lock the row with FOR KEY SHARE.
 */
export const LEASE_TABLE = `
  CREATE TABLE S.lease (
    id int PRIMARY KEY CHECK (id = 1),
    holder text,
    url text,
    epoch bigint NOT NULL,
    since timestamptz NOT NULL,
    renewed timestamptz NOT NULL,
    expires timestamptz NOT NULL
  ) WITH (fillfactor = 50);
  INSERT INTO S.lease VALUES (1, NULL, NULL, 0, now(), now(), now())`;

const quoted = (text: string) => `'${text.replaceAll("'", "''")}'`;

/**
 * Returns one row while holder `id` has the lease in this epoch. Until the transaction ends, the lock makes takeovers skip the
 * row. An expired lease allows no commit: otherwise, commits in quick succession could delay a takeover forever.
 */
export const heldSql = (schema: string, id: string, epoch: string): string =>
  `SELECT epoch FROM ${schema}.lease
    WHERE holder = ${quoted(id)} AND epoch = ${BigInt(epoch)} AND expires > now() FOR KEY SHARE`;

const after = (milliseconds: string) => `clock_timestamp() + ${milliseconds} * interval '1 millisecond'`;
const milliseconds = (time: string) => `floor(extract(epoch FROM ${time}) * 1000)::float8`;

/** Each statement is a separate transaction and locks only the row of the lease, so deadlocks are impossible. */
export const leaseStatements = (schema: string) => ({
  /**
   * Renews the lease of holder $1 in epoch $2 for $3 ms. Returns no row if the lease has another holder or epoch. `expires` is
   * not based on `now()`: a delayed statement must not shorten the lease.
   */
  renew: `UPDATE ${schema}.lease SET renewed = clock_timestamp(), expires = ${after('$3')}
    WHERE holder = $1 AND epoch = $2 RETURNING ${milliseconds('now()')} AS at, ${milliseconds('since')} AS since`,
  read: `SELECT holder, url, epoch, ${milliseconds('since')} AS since, ${milliseconds('renewed')} AS renewed,
      ${milliseconds('now()')} AS at, expires <= now() AS ended FROM ${schema}.lease`,
  /**
   * Assigns the lease to holder $1 with URL $2 for $4 ms if it is free and still in epoch $3. Skips the row while a commit or a
   * renewal has it locked; the next attempt follows in a second.
   */
  take: `WITH free AS (
      SELECT id FROM ${schema}.lease WHERE epoch = $3 AND (holder IS NULL OR holder = $1 OR expires <= now())
      FOR UPDATE SKIP LOCKED)
    UPDATE ${schema}.lease SET holder = $1, url = $2, epoch = lease.epoch + 1, since = now(), renewed = now(), expires = ${after('$4')}
    FROM free WHERE lease.id = free.id RETURNING lease.epoch`,
  /** Releases the lease of holder $1 in epoch $2. */
  release: `UPDATE ${schema}.lease SET holder = NULL, expires = now() WHERE holder = $1 AND epoch = $2`,
  /** Selects the leader's URL, unless its lease has expired. */
  leader: `SELECT url FROM ${schema}.lease WHERE holder IS NOT NULL AND expires > now()`,
});
