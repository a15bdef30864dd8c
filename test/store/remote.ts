import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import type { RemoteCalls } from './remote-calls.ts';

export interface Remote extends RemoteCalls {
  readonly pid: number;
  /** Kills the process with SIGKILL; resolves when it has ended. */
  kill(): Promise<void>;
}

const CHILD = fileURLToPath(new URL('./remote-child.ts', import.meta.url));

/**
 * Starts a process that can open a store. `setUp` is shell code that runs first in the same process, so its limits and mounts
 * apply to the store. `wrap` is a command that runs the shell. The process is killed after the test.
 */
export function startRemote(setUp = 'true', wrap: readonly string[] = []): Remote {
  const line = [...wrap, 'sh', '-c', `${setUp} && exec "$0" "$1"`, process.execPath, CHILD];
  const child = spawn(line[0] as string, line.slice(1), { stdio: ['ignore', 'ignore', 'pipe', 'ipc'] });
  let stderr = '';
  child.stderr?.on('data', chunk => {
    stderr += chunk;
  });
  const ended = once(child, 'close');
  const answers: ((answer: { value?: unknown; error?: { message: string; reason?: string } }) => void)[] = [];
  child.on('message', answer => answers.shift()?.(answer as object));
  void ended.then(() => {
    for (const answer of answers) answer({ error: { message: `the process ended: ${stderr}` } });
  });
  const kill = async () => {
    child.kill('SIGKILL');
    await ended;
  };
  onTestFinished(kill);

  const call = (name: string, args: unknown[]) =>
    new Promise((resolve, reject) => {
      if (!child.connected) reject(new Error(`the process has ended: ${stderr}`));
      answers.push(({ value, error }) =>
        error ? reject(Object.assign(new Error(error.message), error)) : resolve(value),
      );
      child.send({ name, args });
    });
  return new Proxy({ pid: child.pid, kill } as Remote, {
    get: (own, name: keyof Remote) => own[name] ?? ((...args: unknown[]) => call(name, args)),
  });
}

/** Command prefix for `startRemote` that allows private mounts. */
export const UNSHARED = ['unshare', '--map-root-user', '--mount'];

/** Returns why this system cannot run tests that mount something, or undefined if it can. */
export function whyNoMounts(folder: string): string | undefined {
  const [command = '', ...rest] = [...UNSHARED, 'mount', '-t', 'tmpfs', 'tmpfs', folder];
  const probe = spawnSync(command, rest, { encoding: 'utf8' });
  return probe.status === 0 ? undefined : `no private mounts: ${probe.error?.message ?? probe.stderr.trim()}`;
}
