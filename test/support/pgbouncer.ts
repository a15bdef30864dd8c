import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterThisTest } from './client.ts';
import { newFolder } from './folder.ts';
import { freePort } from './prometheus.ts';

/**
 * Starts PgBouncer in transaction mode in front of a database and returns the database's URL through it. It is stopped after
 * the test. Rejects with its output if it does not start.
 */
export async function pgbouncerTo(database: string): Promise<string> {
  const { hostname, port: server, username, password, pathname } = new URL(database);
  const port = await freePort();
  const file = join(newFolder(), 'pgbouncer.ini');
  writeFileSync(
    file,
    `[databases]
* = host=${hostname} port=${server} user=${username} password=${password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 40
${process.getuid?.() === 0 ? 'user = postgres' : ''}
`,
    { mode: 0o600 },
  );
  const child = spawn('pgbouncer', [file], { stdio: ['ignore', 'ignore', 'pipe'] });
  const kill = () => child.kill('SIGKILL');
  process.once('exit', kill);
  afterThisTest(async () => {
    process.off('exit', kill);
    if (child.exitCode !== null) return;
    const ended = once(child, 'exit');
    kill();
    await ended;
  });
  let output = '';
  await new Promise<void>((resolve, reject) => {
    child.stderr.on('data', chunk => {
      output += chunk;
      if (output.includes('process up')) resolve();
    });
    child.once('close', () => reject(new Error(`PgBouncer did not start:\n${output}`)));
  });
  return `postgres://${username}:${password}@127.0.0.1:${port}${pathname}`;
}
