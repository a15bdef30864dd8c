/**
 * The tables of leases. A lease lasts as long as its holder is a live replica, so that a renewal writes one row for all
 * accounts. `expires` is by the database's clock. `accounts` are the configured ones, `digest` their hash. Text compares by
 * bytes. `S` is the schema.
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
 * Of the relation `given (account, epoch)` the rows that replica `id` holds. The lock makes a takeover pass an account by until
 * the transaction ends; renewals and releases do not wait for it, nor it for them.
 */
export const heldSql = (schema: string, id: string): string =>
  `SELECT leases.account, leases.epoch FROM ${schema}.leases JOIN given USING (account, epoch)
    WHERE leases.holder = '${id.replaceAll("'", "''")}' ORDER BY leases.account FOR KEY SHARE OF leases`;

const ENDS = `clock_timestamp() + $2 * interval '1 millisecond'`;
const MILLISECONDS = (time: string) => `floor(extract(epoch FROM ${time}) * 1000)::float8`;
const RETURNING = `RETURNING ${MILLISECONDS('now()')} AS at, ${MILLISECONDS('since')} AS since`;

/**
 * The statements, each a transaction of its own, so that a replica that stops during a renewal holds no lock. Deadlocks are
 * impossible: rows are locked in the order of their names, and `take`, for whose locks commits and releases wait, waits for
 * none.
 */
export const leaseStatements = (schema: string) => ({
  /**
   * Of $1, for $2 milliseconds, url $3, digest $4, accounts $5. No row: its leases have ended. Not `now()`: one that had to
   * wait must not shorten what a later one wrote.
   */
  renew: `UPDATE ${schema}.replicas
    SET expires = ${ENDS}, url = $3, digest = $4,
      accounts = CASE WHEN digest = $4 THEN accounts ELSE $5::text[] END
    WHERE id = $1 ${RETURNING}`,
  /** The same for one that is not there, which runs since $6; null: since now. */
  join: `INSERT INTO ${schema}.replicas (id, url, since, expires, digest, accounts)
    VALUES ($1, $3, coalesce(to_timestamp($6::float8 / 1000), now()), ${ENDS}, $4, $5::text[])
    ${RETURNING}`,
  leave: `DELETE FROM ${schema}.replicas WHERE id = $1`,
  /** Accounts are left out where the digest is one of $1. */
  replicas: `SELECT id, url, ${MILLISECONDS('since')} AS since, expires <= now() AS ended, digest,
    CASE WHEN digest = ANY($1::text[]) THEN NULL ELSE accounts END AS accounts FROM ${schema}.replicas ORDER BY id`,
  agents: `SELECT url FROM ${schema}.replicas WHERE expires > now() ORDER BY since`,
  /** Ends all leases of replicas that did not renew in time. From then on these can't renew any more. */
  end: `DELETE FROM ${schema}.replicas WHERE id IN
    (SELECT id FROM ${schema}.replicas WHERE expires <= now() ORDER BY id FOR UPDATE)`,
  /**
   * Values of the row with key $1: of every account that was ever held, and the agent-wide one. OFFSET 0 makes it a look at the
   * primary key for each account: the planner would rather read all rows.
   */
  valuesOf: `SELECT account, value FROM (SELECT account FROM ${schema}.leases UNION SELECT '') AS known CROSS JOIN LATERAL
    (SELECT value FROM ${schema}.rows WHERE rows.account = known.account AND key = $1 OFFSET 0) AS found`,
  leases: `SELECT account, holder, epoch FROM ${schema}.leases`,
  /** Makes accounts $1, sorted, known. */
  add: `INSERT INTO ${schema}.leases (account, epoch) SELECT account, 0 FROM unnest($1::text[]) AS account ON CONFLICT DO NOTHING`,
  /**
   * Gives accounts $2 to $1 where they are free and still of the epochs $3. Passes by what another takes now, or what a
   * commit of the holder before still writes.
   */
  take: `WITH free AS (
      SELECT account FROM ${schema}.leases JOIN unnest($2::text[], $3::bigint[]) AS seen(account, epoch) USING (account, epoch)
      WHERE holder IS NULL OR NOT EXISTS (SELECT FROM ${schema}.replicas WHERE id = holder)
      ORDER BY account FOR UPDATE OF leases SKIP LOCKED)
    UPDATE ${schema}.leases SET holder = $1, epoch = epoch + 1 FROM free WHERE leases.account = free.account
    RETURNING leases.account, leases.epoch`,
  /** Of $1: accounts $2 of the epochs $3. */
  release: `WITH own AS (
      SELECT account FROM ${schema}.leases JOIN unnest($2::text[], $3::bigint[]) AS held(account, epoch) USING (account, epoch)
      WHERE holder = $1 ORDER BY account FOR NO KEY UPDATE OF leases)
    UPDATE ${schema}.leases SET holder = NULL FROM own WHERE leases.account = own.account`,
});
