import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { freePort } from '../../test/support/prometheus.ts';

const run = promisify(execFile);

/** Time limit for Prometheus to open its blocks (ms). */
const READY_MS = 120_000;

export interface Prometheus {
  readonly url: string;
  stop(): Promise<void>;
}

/** Converts OpenMetrics files into blocks below `data` and deletes the files. */
export async function importFiles(files: readonly string[], data: string): Promise<void> {
  for (const file of files) {
    await run('promtool', ['tsdb', 'create-blocks-from', 'openmetrics', file, data]);
    await rm(file);
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGTERM');
  await once(child, 'exit');
}

/** Starts Prometheus with the data folder `data`. It scrapes nothing. */
export async function startPrometheus(data: string): Promise<Prometheus> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const file = join(data, '..', 'prometheus.json');
  // Every JSON document is valid YAML.
  await writeFile(file, '{}');
  const child = spawn(
    'prometheus',
    [
      `--config.file=${file}`,
      `--storage.tsdb.path=${data}`,
      '--storage.tsdb.retention.time=90d',
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  const kill = () => void child.kill('SIGKILL');
  process.once('exit', kill);
  let output = '';
  child.stderr?.on('data', chunk => {
    output = (output + chunk).slice(-4000);
  });
  for (const start = performance.now(); ; await sleep(200)) {
    const response = await fetch(`${url}/-/ready`).catch(() => undefined);
    if (response?.ok) break;
    if (child.exitCode === null && performance.now() - start < READY_MS) continue;
    await end(child);
    throw new Error(`Prometheus did not become ready:\n${output}`);
  }
  return {
    url,
    async stop() {
      await end(child);
      process.off('exit', kill);
    },
  };
}
