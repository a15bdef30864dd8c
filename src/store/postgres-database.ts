import { Socket } from 'node:net';
import pLimit from 'p-limit';
import { Client, type ClientConfig, Pool, type PoolClient, type QueryConfig } from 'pg';
import { type Clock, systemClock } from '../kit/clock.ts';
import type { Env, SecretSetting } from '../kit/secret.ts';
import { StoreError } from './errors.ts';
import { affectsAll, postgresError } from './postgres-errors.ts';
import { parseAddress, readUrl } from './postgres-url.ts';

/** Values are text, 32-bit numbers, booleans or null; 64-bit numbers are returned as text. */
export type DatabaseRow = Readonly<Record<string, unknown>>;

export type DatabaseQuery = (sql: string, values?: readonly unknown[]) => Promise<readonly DatabaseRow[]>;

/** Each kind has a separate connection limit, so renewals never wait for reads or commits. */
type StatementKind = 'read' | 'write' | 'lease';

export type PostgresDatabase = ReturnType<typeof createPostgresDatabase>;

export interface PostgresSettings {
  readonly url: SecretSetting;
  readonly schema: string;
}

export interface PostgresDeps {
  readonly env: Env;
  readonly clock?: Clock;
  /** In ms. */
  readonly timeouts?: { readonly connect: number; readonly statement: number };
  /** Timeout of a lease statement (ms): shorter than the interval between renewals. */
  readonly leaseTimeout?: number;
}

const ignore = () => undefined;

const CONNECTIONS: Readonly<Record<StatementKind, number>> = { read: 2, write: 2, lease: 1 };
const TIMEOUTS = { connect: 5000, statement: 10_000 };
/** Timeout of each statement that creates the schema (ms). Processes that start together wait for each other. */
const CREATION_MS = 60_000;
/** Maximum time for each step of `close` (ms). */
const CLOSE_MS = 1000;
const IDLE_MS = 60_000;

/** Runs a few tasks concurrently. An error that affects all tasks also fails waiting tasks. */
function createLimit(concurrency: number) {
  const limit = pLimit({ concurrency, rejectOnClear: true });
  let failure: unknown;
  return async <T>(work: () => Promise<T>): Promise<T> => {
    let hasStarted = false;
    const started = async () => {
      hasStarted = true;
      return work().catch(error => {
        failure = error;
        if (affectsAll(error)) limit.clearQueue();
        throw error;
      });
    };
    return limit(started).catch(error => {
      throw hasStarted ? error : failure;
    });
  };
}

/** pg supports `query_timeout` (ms), but its types lack it. */
function timed(text: string, values: readonly unknown[], timeout: number): QueryConfig {
  const config = { text, values: [...values], query_timeout: timeout };
  return config;
}

/** Ignores PGOPTIONS and PGREPLICATION, which pg would send to the server. */
class UrlClient extends Client {
  constructor(config?: ClientConfig) {
    super(config);
    Object.assign(Object(this).connectionParameters, { options: '', replication: '' });
  }
}

/** `sockets`: open sockets, maintained by the pool. `password`: a function, because the file of the password may change. */
function createPool(
  address: ReturnType<typeof parseAddress>,
  timeouts: typeof TIMEOUTS,
  sockets: Set<Socket>,
  password: () => string,
): Pool {
  const pool = new Pool({
    ...address,
    password,
    // Overrides PGSSLNEGOTIATION.
    sslnegotiation: 'postgres',
    application_name: 'delivery-watch',
    Client: UrlClient,
    // Plus one for the transaction that creates the schema.
    max: CONNECTIONS.read + CONNECTIONS.write + CONNECTIONS.lease + 1,
    connectionTimeoutMillis: timeouts.connect,
    idleTimeoutMillis: IDLE_MS,
    keepAlive: true,
    // The server's timeout also ends statements that the client has abandoned. PgBouncer rejects it as a startup parameter.
    onConnect: async client => {
      await client.query(timed(`SET statement_timeout = ${timeouts.statement}`, [], timeouts.connect));
    },
    stream: () => {
      const socket = new Socket();
      sockets.add(socket);
      return socket.once('close', () => sockets.delete(socket));
    },
  });
  // Ignore broken idle connections: the next query opens another one.
  return pool.on('error', ignore);
}

/** Creates a database that connects on first use. Throws StoreError if the URL cannot be read or parsed. */
export function createPostgresDatabase({ url, schema }: PostgresSettings, deps: PostgresDeps) {
  const { env, clock = systemClock, timeouts = TIMEOUTS } = deps;
  const { leaseTimeout = timeouts.statement } = deps;
  const address = parseAddress(readUrl(url, env));
  const subject = `PostgreSQL ${address.host}:${address.port}/${address.database}`;
  const sockets = new Set<Socket>();
  const limits = {
    read: createLimit(CONNECTIONS.read),
    write: createLimit(CONNECTIONS.write),
    lease: createLimit(CONNECTIONS.lease),
  };
  const running = new Set<Promise<unknown>>();
  let closed = false;

  const pool = createPool(address, timeouts, sockets, () => parseAddress(readUrl(url, env)).password ?? '');

  async function withClient<T>(work: (client: PoolClient) => Promise<T>): Promise<T> {
    try {
      const client = await pool.connect();
      let failed = true;
      client.on('error', ignore);
      try {
        const result = await work(client);
        failed = false;
        return result;
      } finally {
        client.off('error', ignore);
        // After a failure, the connection's state is unknown: close it.
        client.release(failed);
      }
    } catch (error) {
      throw postgresError(error, subject);
    }
  }

  const run = async (client: PoolClient, sql: string, values: readonly unknown[], timeout: number) =>
    (await client.query<Record<string, unknown>>(timed(sql, values, timeout))).rows;

  return {
    /** `PostgreSQL host:port/database`, for messages. */
    subject,
    /** Quoted name of the schema. */
    schema: `"${schema}"`,
    /**
     * Runs one statement as a transaction, in bounded time. Rejects with StoreError; after `away`, `slow` and `io` the statement
     * may have taken effect, or may do so later. A Buffer parameter is sent in the binary format.
     */
    query(use: StatementKind, sql: string, values: readonly unknown[] = []): Promise<readonly DatabaseRow[]> {
      if (closed) return Promise.reject(new StoreError('closed', subject));
      // Except for leases, the server's timeout expires first, because its error is more precise.
      const timeout = use === 'lease' ? leaseTimeout : timeouts.statement + timeouts.connect / 5;
      const result = limits[use](() => withClient(client => run(client, sql, values, timeout)));
      const ended = result.then(ignore, ignore).finally(() => running.delete(ended));
      running.add(ended);
      return result;
    },
    /** Runs `work` in a transaction. Rolls back if `work` rejects. Each statement may take a minute. Rejects with StoreError. */
    transaction: (work: (query: DatabaseQuery) => Promise<void>): Promise<void> =>
      withClient(async client => {
        const query: DatabaseQuery = (sql, values = []) => run(client, sql, values, CREATION_MS);
        await query('BEGIN');
        await query(`SET LOCAL statement_timeout = ${CREATION_MS}`);
        // A disconnected process must not keep the lock that others wait for.
        await query(`SET LOCAL idle_in_transaction_session_timeout = ${CREATION_MS}`);
        await work(query);
        await query('COMMIT');
      }),
    /** Runs `last`, waits for running statements and ends all connections, each step within `CLOSE_MS`. `last` must not reject. */
    async close(last?: () => Promise<unknown>): Promise<void> {
      if (closed) return;
      const cutLate = async (work: Promise<unknown>) => {
        const ended = new AbortController();
        const late = clock.sleep(CLOSE_MS, ended.signal).then(() => {
          // Prevents new connections.
          closed = true;
          for (const socket of sockets) socket.destroy();
        }, ignore);
        await work;
        ended.abort();
        await late;
      };
      // After the timeout, the statements of `last` and those queued behind them fail.
      if (last) await cutLate(last());
      closed = true;
      // Wait before `pool.end`, which drops queries that wait for a connection.
      await cutLate(Promise.all(running));
      await cutLate(pool.end());
    },
  };
}
