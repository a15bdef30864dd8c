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

/** A real PostgreSQL of its own, on a free port of the loopback interface, without any of Debian's clusters. */
export interface Postgres {
  readonly port: number;
  /** With user and password: of the superuser, unless told otherwise. */
  url(database: string, user?: string): string;
  /** Makes a fresh empty database, and gives its URL. */
  createDatabase(): Promise<string>;
  /** Runs statements as the superuser. Gives the rows of the last one. */
  query(sql: string, database?: string): Promise<Record<string, unknown>[]>;
  /** Waits until it accepts connections; on the same port and with the same data, where it ran before. */
  start(): Promise<void>;
  /**
   * Ends it: `fast` cuts every connection, `immediate` does not even write what it has in memory, `kill` is SIGKILL for
   * all of its processes. Each time it recovers what was committed.
   */
  stop(mode?: StopMode): Promise<void>;
  restart(mode?: StopMode): Promise<void>;
  /** The server's process first, then those that it has now. */
  pids(): number[];
  /** Stops all of its processes where they are: connections stay, nothing answers. */
  pause(): void;
  resume(): void;
  /** Ends it, and removes its data. */
  close(): Promise<void>;
}

export type StopMode = 'fast' | 'immediate' | 'kill';

export interface PostgresOptions {
  /** More lines of postgresql.conf, by name. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Text of files that it alone may read, by name, in the folder that paths of settings are relative to. */
  readonly files?: Readonly<Record<string, string>>;
}

const PASSWORD = 'canary-of-the-database';
const START_MS = 60_000;
const SETTINGS = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  shared_buffers: '16MB',
  max_connections: '60',
  // A process that is killed leaves what it wrote to the system.
  fsync: 'off',
  max_wal_senders: '0',
  wal_level: 'minimal',
  dynamic_shared_memory_type: 'mmap',
  timezone: 'UTC',
  log_timezone: 'UTC',
};

/** The folder of the programs: Debian's newest version, else where PATH has them; undefined where there are none. */
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
 * Whether PostgreSQL is installed. When it is not, says on stderr that what needs it is skipped, or, where REQUIRE_E2E is 1,
 * throws. For `describe.skipIf(!postgresIsThere())`.
 */
export function postgresIsThere(): boolean {
  if (programs()) return true;
  if (process.env.REQUIRE_E2E === '1') throw new Error('PostgreSQL is not installed, and REQUIRE_E2E=1 asks for it');
  process.stderr.write('skipped: tests that need PostgreSQL, which is not installed\n');
  return false;
}

/** PostgreSQL refuses to run as root: then it runs as the user that its package made. */
function identity(): { readonly uid?: number; readonly gid?: number } {
  if (process.getuid?.() !== 0) return {};
  const line = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find(each => each.startsWith('postgres:'));
  if (!line) throw new Error('root needs a user postgres for PostgreSQL');
  const [, , uid, gid] = line.split(':');
  return { uid: Number(uid), gid: Number(gid) };
}

/** Whether every user may pass through a folder and all that it is in. */
const isOpen = (folder: string): boolean =>
  (statSync(folder).mode & 1) === 1 && (dirname(folder) === folder || isOpen(dirname(folder)));

function newDataFolder({ uid, gid }: ReturnType<typeof identity>): string {
  const folder = mkdtempSync(join(uid === undefined || isOpen(tmpdir()) ? tmpdir() : '/tmp', 'delivery-watch-pg-'));
  if (uid !== undefined && gid !== undefined) chownSync(folder, uid, gid);
  return folder;
}

/** What makes a program end when this process is killed, where util-linux is installed. */
const withParent = () => (existsSync('/usr/bin/setpriv') ? ['/usr/bin/setpriv', '--pdeathsig', 'QUIT'] : []);

async function runToEnd(child: ChildProcess): Promise<void> {
  let said = '';
  child.stderr?.on('data', chunk => {
    said += chunk;
  });
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`initdb failed:\n${said}`);
}

/** Starts a server with an empty database `postgres`. Rejects with what it said when it does not start. */
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
    // SIGKILL would leave shared memory behind. It continues what is paused, too.
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
        // A backend that has just ended.
      }
    }
  }

  async function tryToStart(): Promise<void> {
    const child = run('postgres', '-D', data, '-p', String(port));
    server = child;
    let said = '';
    const ready = Promise.withResolvers<void>();
    child.stderr?.on('data', chunk => {
      said = (said + chunk).slice(-4000);
      if (said.includes('ready to accept connections')) ready.resolve();
    });
    // What it said may come after its end.
    child.once('close', () => ready.reject(new Error(`PostgreSQL did not start:\n${said}`)));
    const late = setTimeout(() => ready.reject(new Error(`PostgreSQL is not ready:\n${said}`)), atThisLoad(START_MS));
    await ready.promise.finally(() => clearTimeout(late));
  }

  /** Processes that were killed end one after the other, and the last of them frees what they shared. */
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
