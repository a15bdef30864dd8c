import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { mainFile } from './bundle.ts';

export interface CliProcess {
  readonly pid: number;
  stdout(): string;
  stderr(): string;
  /** Resolves with the match once standard output or standard error matches; rejects if the process ends without a match. */
  says(pattern: RegExp): Promise<RegExpExecArray>;
  /** Resolves with the URL from the agent's log once it listens. */
  listensAt(): Promise<string>;
  kill(signal: NodeJS.Signals): void;
  /** Resolves with the exit code, or with the signal that ended the process. */
  readonly ended: Promise<number | NodeJS.Signals>;
}

/**
 * Runs the real command line in a separate process. `wrap`: a command that runs it, for example to drop a privilege. `node`: the
 * path of Node.js.
 */
export function startCli(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  wrap: readonly string[] = [],
  node = process.execPath,
): CliProcess {
  const [program, ...rest] = [...wrap, node, mainFile(), ...args] as [string, ...string[]];
  const { PATH = '', NODE_COMPILE_CACHE } = process.env;
  const child = spawn(program, rest, {
    env: { PATH, ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  }) as ChildProcessByStdio<null, Readable, Readable>;
  const killNow = () => void child.kill('SIGKILL');
  process.once('exit', killNow);
  let out = '';
  let err = '';
  child.stdout.on('data', chunk => {
    out += chunk;
  });
  child.stderr.on('data', chunk => {
    err += chunk;
  });
  const ended = once(child, 'close').then(([code, signal]) => {
    process.off('exit', killNow);
    return (code ?? signal) as number | NodeJS.Signals;
  });
  const says = (pattern: RegExp) =>
    new Promise<RegExpExecArray>((resolve, reject) => {
      const look = () => {
        const match = pattern.exec(`${out}\n${err}`);
        if (match) resolve(match);
      };
      child.stdout.on('data', look);
      child.stderr.on('data', look);
      void ended.then(end => {
        look();
        reject(new Error(`ended with ${end} without saying ${pattern}:\n${out}\n${err}`));
      });
      look();
    });
  return {
    pid: child.pid as number,
    stdout: () => out,
    stderr: () => err,
    kill: signal => void child.kill(signal),
    ended,
    says,
    async listensAt() {
      const [, url = ''] = await says(/"url":"([^"]+)"/);
      return url;
    },
  };
}

/** Runs the command line until it exits. */
export async function runCli(...how: Parameters<typeof startCli>) {
  const cli = startCli(...how);
  return { code: await cli.ended, stdout: cli.stdout(), stderr: cli.stderr() };
}
