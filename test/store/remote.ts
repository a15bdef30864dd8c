import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import type { RemoteCalls } from './remote-calls.ts';

export interface Remote extends RemoteCalls {
  readonly pid: number;
  /** Ends the process with SIGKILL; resolves when it is gone. */
  kill(): Promise<void>;
}

const CHILD = fileURLToPath(new URL('./remote-child.ts', import.meta.url));

/**
 * A store in a process of its own. `setUp` is shell text that runs before it, in the same process: limits and mounts made
 * there hold for the store. `wrap` is a command that runs the shell. The process ends with the test.
 */
export function startRemote(setUp = 'true', wrap: readonly string[] = []): Remote {
  const line = [...wrap, 'sh', '-c', `${setUp} && exec "$0" "$1"`, process.execPath, CHILD];
  const child = spawn(line[0] as string, line.slice(1), { stdio: ['ignore', 'ignore', 'pipe', 'ipc'] });
  let said = '';
  child.stderr?.on('data', chunk => {
    said += chunk;
  });
  const ended = once(child, 'close');
  const answers: ((answer: { value?: unknown; error?: { message: string; reason?: string } }) => void)[] = [];
  child.on('message', answer => answers.shift()?.(answer as object));
  void ended.then(() => {
    for (const answer of answers) answer({ error: { message: `the process ended: ${said}` } });
  });
  const kill = async () => {
    child.kill('SIGKILL');
    await ended;
  };
  onTestFinished(kill);

  const call = (name: string, args: unknown[]) =>
    new Promise((resolve, reject) => {
      if (!child.connected) reject(new Error(`the process has ended: ${said}`));
      answers.push(({ value, error }) =>
        error ? reject(Object.assign(new Error(error.message), error)) : resolve(value),
      );
      child.send({ name, args });
    });
  return new Proxy({ pid: child.pid, kill } as Remote, {
    get: (own, name: keyof Remote) => own[name] ?? ((...args: unknown[]) => call(name, args)),
  });
}

/** Runs the shell of `startRemote` where it may mount what others do not see. */
export const UNSHARED = ['unshare', '--map-root-user', '--mount'];

/** Why this system can't run tests that mount something; undefined when it can. */
export function whyNoMounts(folder: string): string | undefined {
  const [command = '', ...rest] = [...UNSHARED, 'mount', '-t', 'tmpfs', 'tmpfs', folder];
  const probe = spawnSync(command, rest, { encoding: 'utf8' });
  return probe.status === 0 ? undefined : `no mount of its own: ${probe.error?.message ?? probe.stderr.trim()}`;
}
