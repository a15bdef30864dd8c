import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Postgres } from '../test/support/postgres-server.ts';

async function stop(child: ChildProcess, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill(signal);
  await once(child, 'exit');
}

/** Starts the emulator in a separate process, with the options of `emulator-server.ts`. */
export async function startEmulator(options: object) {
  const child = fork(new URL('./emulator-server.ts', import.meta.url), [JSON.stringify(options)], {
    execArgv: ['--max-old-space-size=4096'],
  });
  const [address] = (await once(child, 'message')) as [{ url: string; token: string; tokens: string[] }];
  return { ...address, stop: () => stop(child) };
}

export const PACKAGE = new URL('../dist/main.js', import.meta.url).pathname;

/** Starts `delivery-watch serve` from the package, on a free port and in a new folder. */
export async function startAgent(config: object, env: Readonly<Record<string, string>>) {
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-bench-'));
  writeFileSync(join(folder, 'config.yaml'), JSON.stringify({ server: { listen: '127.0.0.1:0' }, ...config }));
  const child = spawn(process.execPath, [PACKAGE, 'serve', '--config', 'config.yaml'], {
    cwd: folder,
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let log = '';
  child.stderr.on('data', (chunk: Buffer) => {
    log += chunk;
  });
  while (!/"url":"/.test(log)) {
    if (child.exitCode !== null) throw new Error(`the agent did not start: ${log}`);
    await new Promise(resolve => setTimeout(resolve, 5));
  }
  return {
    url: /"url":"([^"]+)"/.exec(log)?.[1] ?? '',
    pid: child.pid as number,
    async stop(signal?: NodeJS.Signals) {
      await stop(child, signal);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Returns the current or peak memory of a process, or its current memory without mapped files (MiB). */
export function memoryOf(pid: number, name: 'VmRSS' | 'VmHWM' | 'RssAnon'): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]) / 1024;
}

/** Returns the processor time of a process (ms), with a resolution of 10 ms. */
export function processorTime(pid: number): number {
  const [, user, system] = /^.*\) (?:\S+ ){11}(\d+) (\d+) /.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? [];
  return (Number(user) + Number(system)) * 10;
}

/** Returns the resources used by a PostgreSQL server and its child processes: processor time (ms) and write-ahead log (bytes). */
export async function postgresUse(postgres: Postgres): Promise<{ readonly processor: number; readonly wal: number }> {
  const [row] = await postgres.query("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn AS wal");
  const processor = postgres.pids().reduce((sum, pid) => {
    try {
      return sum + processorTime(pid);
    } catch {
      return sum; // the process has exited since it was listed
    }
  }, 0);
  return { processor, wal: Number(row?.wal) };
}
