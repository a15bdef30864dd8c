import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  accessSync,
  chownSync,
  constants,
  existsSync,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { Client } from 'pg';
import { atThisLoad, eventually } from './eventually.ts';
import { freePort } from './prometheus.ts';

/** A separate real PostgreSQL server on a free loopback port, independent of Debian's clusters. */
export interface Postgres {
  readonly port: number;
  /** Returns a URL with a user and password. The default user is the superuser. */
  url(database: string, user?: string): string;
  /** Creates an empty database and returns its URL. */
  createDatabase(): Promise<string>;
  /** Runs statements as the superuser and returns the rows of the last one. */
  query(sql: string, database?: string): Promise<Record<string, unknown>[]>;
  /** Starts the server and waits until it accepts connections. A restart keeps the port and the data. */
  start(): Promise<void>;
  /**
   * Stops the server: `fast` closes every connection, `immediate` does not flush memory, `kill` sends SIGKILL to all of
   * its processes. Committed data survives each mode.
   */
  stop(mode?: StopMode): Promise<void>;
  restart(mode?: StopMode): Promise<void>;
  /** Returns the id of the server's process, followed by the ids of its current children. */
  pids(): number[];
  /** Suspends all server processes: connections stay open without responses. */
  pause(): void;
  resume(): void;
  /** Stops the server and deletes its data. */
  close(): Promise<void>;
}

export type StopMode = 'fast' | 'immediate' | 'kill';

export interface PostgresOptions {
  /** Additional settings of postgresql.conf by name. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Files that only the server can read, by name. Paths in `settings` are relative to their folder. */
  readonly files?: Readonly<Record<string, string>>;
}

const PASSWORD = 'canary-of-the-database';
const START_MS = 60_000;
const SETTINGS = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  shared_buffers: '16MB',
  max_connections: '60',
  // Tests do not need fsync: the operating system keeps data that a killed process has written.
  fsync: 'off',
  max_wal_senders: '0',
  wal_level: 'minimal',
  dynamic_shared_memory_type: 'mmap',
  timezone: 'UTC',
  log_timezone: 'UTC',
};

/**
 * Returns the folder of PostgreSQL's programs: Debian's newest version, or else a folder on PATH, or else undefined.
 */
function programs(): string | undefined {
  const version = (folder: string) => Number(folder.split('/').at(-2));
  const debian = globSync('/usr/lib/postgresql/*/bin').sort((one, other) => version(other) - version(one));
  return [...debian, ...(process.env.PATH ?? '').split(delimiter)].find(folder => {
    try {
      accessSync(join(folder, 'initdb'), constants.X_OK);
      accessSync(join(folder, 'postgres'), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/**
 * Returns whether PostgreSQL is installed. If not, reports on stderr that tests are skipped, or throws if REQUIRE_E2E is 1. Use
 * it with `describe.skipIf(!postgresIsThere())`.
 */
export function postgresIsThere(): boolean {
  if (programs()) return true;
  if (process.env.REQUIRE_E2E === '1')
    throw new Error('PostgreSQL is not installed although REQUIRE_E2E=1 requires it');
  process.stderr.write('skipped: tests that need PostgreSQL, which is not installed\n');
  return false;
}

/** Returns the user that runs the server. PostgreSQL does not run as root, so root uses the user `postgres`. */
function identity(): { readonly uid?: number; readonly gid?: number } {
  if (process.getuid?.() !== 0) return {};
  const line = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find(each => each.startsWith('postgres:'));
  if (!line) throw new Error('root needs a user postgres for PostgreSQL');
  const [, , uid, gid] = line.split(':');
  return { uid: Number(uid), gid: Number(gid) };
}

/** Returns whether every user may traverse a folder and its parents. */
const isOpen = (folder: string): boolean =>
  (statSync(folder).mode & 1) === 1 && (dirname(folder) === folder || isOpen(dirname(folder)));

function newDataFolder({ uid, gid }: ReturnType<typeof identity>): string {
  const folder = mkdtempSync(join(uid === undefined || isOpen(tmpdir()) ? tmpdir() : '/tmp', 'delivery-watch-pg-'));
  if (uid !== undefined && gid !== undefined) chownSync(folder, uid, gid);
  return folder;
}

/** Returns a command prefix that ends a program when this process is killed. It requires util-linux. */
const withParent = () => (existsSync('/usr/bin/setpriv') ? ['/usr/bin/setpriv', '--pdeathsig', 'QUIT'] : []);

async function runToEnd(child: ChildProcess): Promise<void> {
  let output = '';
  child.stderr?.on('data', chunk => {
    output += chunk;
  });
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`initdb failed:\n${output}`);
}

/** Starts a server with an empty database `postgres`. Rejects with its output if it does not start. */
export async function startPostgres({ settings = {}, files = {} }: PostgresOptions = {}): Promise<Postgres> {
  const bin = programs();
  if (bin === undefined) throw new Error('PostgreSQL is not installed');
  const user = identity();
  const folder = newDataFolder(user);
  const data = join(folder, 'data');
  const env = { PATH: '/usr/bin:/bin', LC_ALL: 'C' };
  const run = (name: string, ...args: string[]) => {
    const [program, ...rest] = [...withParent(), join(bin, name), ...args] as [string, ...string[]];
    return spawn(program, rest, { ...user, cwd: '/', env, stdio: ['ignore', 'ignore', 'pipe'] });
  };
  const port = await freePort();
  let server: ChildProcess | undefined;
  let initializing: ChildProcess | undefined;
  let databases = 0;

  const isRunning = () => server !== undefined && server.exitCode === null && server.signalCode === null;

  function cleanUp(): void {
    // Send SIGQUIT, because SIGKILL would leak shared memory.
    if (isRunning()) signal('SIGQUIT');
    initializing?.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }

  function pids(): number[] {
    const pid = server?.pid;
    if (pid === undefined || !isRunning()) return [];
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
    return [pid, ...children.split(' ').filter(Boolean).map(Number)];
  }

  function signal(name: NodeJS.Signals, all = pids()): void {
    for (const pid of all) {
      try {
        process.kill(pid, name);
      } catch {
        // Ignore a backend that has just ended.
      }
    }
  }

  async function tryToStart(): Promise<void> {
    const child = run('postgres', '-D', data, '-p', String(port));
    server = child;
    let output = '';
    const ready = Promise.withResolvers<void>();
    child.stderr?.on('data', chunk => {
      output = (output + chunk).slice(-4000);
      if (output.includes('ready to accept connections')) ready.resolve();
    });
    // Output may arrive after the exit.
    child.once('close', () => ready.reject(new Error(`PostgreSQL did not start:\n${output}`)));
    const late = setTimeout(() => ready.reject(new Error(`PostgreSQL is not ready:\n${output}`)), atThisLoad(START_MS));
    await ready.promise.finally(() => clearTimeout(late));
  }

  /** Starts the server. After a kill, retries until its last process has ended and freed the shared memory. */
  const start = () =>
    eventually(async () => {
      const failed = await tryToStart().then(
        () => undefined,
        (error: Error) => error,
      );
      if (failed?.message.includes('pre-existing shared memory block')) throw failed;
      return failed;
    }).then(failed => {
      if (failed) throw failed;
    });

  async function stop(mode: StopMode = 'fast'): Promise<void> {
    if (!isRunning() || !server) return;
    const exited = once(server, 'exit');
    if (mode === 'kill') signal('SIGKILL');
    else server.kill(mode === 'fast' ? 'SIGINT' : 'SIGQUIT');
    signal('SIGCONT');
    await exited;
  }

  const url = (database: string, name = 'postgres') => `postgres://${name}:${PASSWORD}@127.0.0.1:${port}/${database}`;

  async function query(sql: string, database = 'postgres'): Promise<Record<string, unknown>[]> {
    const client = new Client({ connectionString: url(database) });
    await client.connect();
    try {
      const result = [await client.query(sql)].flat();
      return result.at(-1)?.rows ?? [];
    } finally {
      await client.end();
    }
  }

  process.once('exit', cleanUp);
  try {
    writeFileSync(join(folder, 'password'), PASSWORD);
    initializing = run(
      'initdb',
      ...['-D', data, '-U', 'postgres', '--auth=scram-sha-256', `--pwfile=${join(folder, 'password')}`],
      ...['--no-sync', '--no-instructions', '--encoding=UTF8', '--locale=C', '--wal-segsize=1'],
    );
    await runToEnd(initializing);
    const lines = Object.entries({ ...SETTINGS, ...settings }).map(([name, value]) => `${name} = '${value}'`);
    writeFileSync(join(data, 'postgresql.auto.conf'), `${lines.join('\n')}\n`);
    for (const [name, text] of Object.entries(files)) {
      writeFileSync(join(data, name), text, { mode: 0o600 });
      if (user.uid !== undefined && user.gid !== undefined) chownSync(join(data, name), user.uid, user.gid);
    }
    await start();
  } catch (error) {
    cleanUp();
    process.off('exit', cleanUp);
    throw error;
  }
  return {
    port,
    url,
    query,
    start,
    stop,
    pids,
    async createDatabase() {
      databases += 1;
      await query(`CREATE DATABASE test_${databases}`);
      return url(`test_${databases}`);
    },
    async restart(mode) {
      await stop(mode);
      await start();
    },
    pause: () => signal('SIGSTOP'),
    resume: () => signal('SIGCONT'),
    async close() {
      await stop('immediate');
      cleanUp();
      process.off('exit', cleanUp);
    },
  };
}
