/**
 * `S` is the schema. A lease lasts while its holder is a live replica, so a renewal writes one row for all accounts. `expires`
 * is a time of the database's clock. `accounts` contains the configured accounts, and `digest` is their hash.
 */
export const LEASE_TABLES = `
  CREATE TABLE S.replicas (
    id text COLLATE "C" PRIMARY KEY,
    url text NOT NULL,
    since timestamptz NOT NULL,
    expires timestamptz NOT NULL,
    digest text NOT NULL,
    accounts text[] NOT NULL
  ) WITH (fillfactor = 50);
  CREATE TABLE S.leases (
    account text COLLATE "C" PRIMARY KEY,
    holder text COLLATE "C",
    epoch bigint NOT NULL
  ) WITH (fillfactor = 50)`;

/**
 * Selects the rows of the relation `given (account, epoch)` that replica `id` holds. Until the transaction ends, the lock makes
 * takeovers skip these accounts; it does not block renewals and releases.
 */
export const heldSql = (schema: string, id: string): string =>
  `SELECT leases.account, leases.epoch FROM ${schema}.leases JOIN given USING (account, epoch)
    WHERE leases.holder = '${id.replaceAll("'", "''")}' ORDER BY leases.account FOR KEY SHARE OF leases`;

const ENDS = `clock_timestamp() + $2 * interval '1 millisecond'`;
const MILLISECONDS = (time: string) => `floor(extract(epoch FROM ${time}) * 1000)::float8`;
const RETURNING = `RETURNING ${MILLISECONDS('now()')} AS at, ${MILLISECONDS('since')} AS since`;

/**
 * Each statement is a separate transaction, so a replica that dies during a renewal holds no lock. Deadlocks are impossible: rows
 * are locked in name order, and `take`, which commits and releases wait for, waits for no lock.
 */
export const leaseStatements = (schema: string) => ({
  /**
   * Renews the leases of replica $1 for $2 ms, with URL $3, digest $4 and accounts $5. Returns no row if they have
   * ended. `expires` is not based on `now()`: a delayed statement must not shorten a newer one's lease.
   */
  renew: `UPDATE ${schema}.replicas
    SET expires = ${ENDS}, url = $3, digest = $4,
      accounts = CASE WHEN digest = $4 THEN accounts ELSE $5::text[] END
    WHERE id = $1 ${RETURNING}`,
  /** Inserts a replica with the parameters of `renew`, running since $6 (null: now). */
  join: `INSERT INTO ${schema}.replicas (id, url, since, expires, digest, accounts)
    VALUES ($1, $3, coalesce(to_timestamp($6::float8 / 1000), now()), ${ENDS}, $4, $5::text[])
    ${RETURNING}`,
  leave: `DELETE FROM ${schema}.replicas WHERE id = $1`,
  /** Lists the replicas. `accounts` is null if the digest is in $1. */
  replicas: `SELECT id, url, ${MILLISECONDS('since')} AS since, expires <= now() AS ended, digest,
    CASE WHEN digest = ANY($1::text[]) THEN NULL ELSE accounts END AS accounts FROM ${schema}.replicas ORDER BY id`,
  agents: `SELECT url FROM ${schema}.replicas WHERE expires > now() ORDER BY since`,
  /** Removes replicas that did not renew in time, which ends their leases. */
  end: `DELETE FROM ${schema}.replicas WHERE id IN
    (SELECT id FROM ${schema}.replicas WHERE expires <= now() ORDER BY id FOR UPDATE)`,
  /**
   * Selects the value of key $1 for every account that ever had a lease, and the agent-wide value. OFFSET 0 forces a
   * primary-key lookup per account; the planner would otherwise read all rows.
   */
  valuesOf: `SELECT account, value FROM (SELECT account FROM ${schema}.leases UNION SELECT '') AS known CROSS JOIN LATERAL
    (SELECT value FROM ${schema}.rows WHERE rows.account = known.account AND key = $1 OFFSET 0) AS found`,
  leases: `SELECT account, holder, epoch FROM ${schema}.leases`,
  /** Inserts rows for the sorted accounts $1. */
  add: `INSERT INTO ${schema}.leases (account, epoch) SELECT account, 0 FROM unnest($1::text[]) AS account ON CONFLICT DO NOTHING`,
  /**
   * Assigns accounts $2 to replica $1 if they are free and still at epochs $3. Skips accounts locked by another
   * takeover or by a commit of the previous holder.
   */
  take: `WITH free AS (
      SELECT account FROM ${schema}.leases JOIN unnest($2::text[], $3::bigint[]) AS seen(account, epoch) USING (account, epoch)
      WHERE holder IS NULL OR NOT EXISTS (SELECT FROM ${schema}.replicas WHERE id = holder)
      ORDER BY account FOR UPDATE OF leases SKIP LOCKED)
    UPDATE ${schema}.leases SET holder = $1, epoch = epoch + 1 FROM free WHERE leases.account = free.account
    RETURNING leases.account, leases.epoch`,
  /** Releases accounts $2 at epochs $3, held by replica $1. */
  release: `WITH own AS (
      SELECT account FROM ${schema}.leases JOIN unnest($2::text[], $3::bigint[]) AS held(account, epoch) USING (account, epoch)
      WHERE holder = $1 ORDER BY account FOR NO KEY UPDATE OF leases)
    UPDATE ${schema}.leases SET holder = NULL FROM own WHERE leases.account = own.account`,
});
