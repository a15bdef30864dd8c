import { spawn } from 'node:child_process';
import { once } from 'node:events';

/** Runs a program until it exits, with exactly this environment. */
export async function run(program: string, args: readonly string[], env: Readonly<Record<string, string>>) {
  const child = spawn(program, args, { env: { ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', chunk => {
    stdout += chunk;
  });
  child.stderr.on('data', chunk => {
    stderr += chunk;
  });
  const [code] = await once(child, 'close');
  return { code: code as number | null, stdout, stderr };
}
