import { Socket } from 'node:net';
import { Pool, type PoolClient, type QueryConfig } from 'pg';
import { type Clock, systemClock } from '../kit/clock.ts';
import type { Env, SecretSetting } from '../kit/secret.ts';
import { StoreError } from './errors.ts';
import { isOfAll, postgresError } from './postgres-errors.ts';
import { parseAddress, readUrl } from './postgres-url.ts';

/** A value of a row: text, a number of 32 bits, a boolean, null; wider numbers come as text. */
export type Row = Readonly<Record<string, unknown>>;

/** Use of a statement. Each has its own connections, so a renewal never waits for reads and saves of many accounts. */
export type Use = 'read' | 'write' | 'lease';

export type PostgresDatabase = ReturnType<typeof createPostgresDatabase>;

export interface PostgresSettings {
  readonly url: SecretSetting;
  readonly schema: string;
}

export interface PostgresDeps {
  readonly env: Env;
  readonly clock?: Clock;
  /** Milliseconds for a connection, and for a statement. */
  readonly timeouts?: { readonly connect: number; readonly statement: number };
  /** Milliseconds for a statement of leases: below the time between two renewals. */
  readonly leaseTimeout?: number;
}

const ignore = () => undefined;

const CONNECTIONS: Readonly<Record<Use, number>> = { read: 2, write: 2, lease: 1 };
const TIMEOUTS = { connect: 5000, statement: 10_000 };
/** Time for each statement that creates the schema; replicas that start together wait for each other (ms). */
const CREATION_MS = 60_000;
/** What the end of all connections may take. */
const CLOSE_MS = 1000;
const IDLE_MS = 60_000;

/** Runs at most `limit` tasks concurrently. An error that concerns all tasks also fails all waiting tasks. */
function createLimit(limit: number) {
  const waiting: PromiseWithResolvers<void>[] = [];
  let running = 0;
  return async <T>(work: () => Promise<T>): Promise<T> => {
    if (running >= limit) {
      const turn = Promise.withResolvers<void>();
      waiting.push(turn);
      await turn.promise;
    } else running += 1;
    try {
      return await work();
    } catch (error) {
      if (isOfAll(error)) for (const { reject } of waiting.splice(0)) reject(error);
      throw error;
    } finally {
      const next = waiting.shift();
      if (next) next.resolve();
      else running -= 1;
    }
  };
}

/** A statement that is given up after `timeout` milliseconds: pg has that setting, its types have not. */
function timed(text: string, values: readonly unknown[], timeout: number): QueryConfig {
  const config = { text, values: [...values], query_timeout: timeout };
  return config;
}

/** Connects when it is first asked. Throws StoreError where the URL can't be had or understood. */
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

  const pool = new Pool({
    ...address,
    // A file may have another one by now.
    password: () => parseAddress(readUrl(url, env)).password ?? '',
    application_name: 'delivery-watch',
    // One more for the transaction that creates the schema.
    max: CONNECTIONS.read + CONNECTIONS.write + CONNECTIONS.lease + 1,
    connectionTimeoutMillis: timeouts.connect,
    idleTimeoutMillis: IDLE_MS,
    keepAlive: true,
    // Of the server's own, so that what was given up ends there. Not sent as a parameter of the start, which PgBouncer refuses.
    onConnect: async client => {
      await client.query(timed(`SET statement_timeout = ${timeouts.statement}`, [], timeouts.connect));
    },
    stream: () => {
      const socket = new Socket();
      sockets.add(socket);
      return socket.once('close', () => sockets.delete(socket));
    },
  });
  // A connection that breaks while nothing uses it: the next use opens another.
  pool.on('error', ignore);

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
        // Whatever state a failure left the connection in, and wherever it leads to: the next one is new.
        client.release(failed);
      }
    } catch (error) {
      throw postgresError(error, subject);
    }
  }

  const run = async (client: PoolClient, sql: string, values: readonly unknown[], timeout: number) =>
    (await client.query<Record<string, unknown>>(timed(sql, values, timeout))).rows;

  return {
    /** `host:port/database`, for messages. */
    subject,
    /** The schema that all tables are in, quoted. */
    schema: `"${schema}"`,
    /**
     * Runs one statement in a transaction of its own, in bounded time. Rejects with StoreError; after `away`, `slow` and `io`
     * it may have been done, or be done yet. Numbers of 64 bits come as text; a Buffer is a parameter in the binary format.
     */
    query(use: Use, sql: string, values: readonly unknown[] = []): Promise<readonly Row[]> {
      if (closed) return Promise.reject(new StoreError('closed', subject));
      // The server gives up first, and says so.
      const timeout = use === 'lease' ? leaseTimeout : timeouts.statement + timeouts.connect / 5;
      const asked = limits[use](() => withClient(client => run(client, sql, values, timeout)));
      const ended = asked.then(ignore, ignore).finally(() => running.delete(ended));
      running.add(ended);
      return asked;
    },
    /** Runs `work` in one transaction, which is rolled back when it rejects; each of its statements may take a minute. Rejects with StoreError. */
    transaction: <T>(
      work: (query: (sql: string, values?: readonly unknown[]) => Promise<readonly Row[]>) => Promise<T>,
    ): Promise<T> =>
      withClient(async client => {
        const query = (sql: string, values: readonly unknown[] = []) => run(client, sql, values, CREATION_MS);
        await query('BEGIN');
        await query(`SET LOCAL statement_timeout = ${CREATION_MS}`);
        // A replica that is cut off must not keep the lock that other replicas wait for.
        await query(`SET LOCAL idle_in_transaction_session_timeout = ${CREATION_MS}`);
        const result = await work(query);
        await query('COMMIT');
        return result;
      }),
    /** Does `last`, waits for what was asked for, each a second at most, then ends every connection. `last` must not reject. */
    async close(last?: () => Promise<unknown>): Promise<void> {
      if (closed) return;
      const cutLate = async (work: Promise<unknown>) => {
        const ended = new AbortController();
        const late = clock.sleep(CLOSE_MS, ended.signal).then(() => {
          // Nor does anything connect anew.
          closed = true;
          for (const socket of sockets) socket.destroy();
        }, ignore);
        await work;
        ended.abort();
        await late;
      };
      // Where it takes too long, what it asked for fails, and what waits behind that with it.
      if (last) await cutLate(last());
      closed = true;
      // First: `pool.end` drops queries that wait for a connection.
      await cutLate(Promise.all(running));
      await cutLate(pool.end());
    },
  };
}
