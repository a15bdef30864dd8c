import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { atThisLoad } from './eventually.ts';

/**
 * Returns whether a program is on PATH. If not, reports on stderr that tests are skipped, or throws if REQUIRE_E2E is 1. Use it
 * with `test.skipIf(!requireProgram('promtool'))`.
 */
export function requireProgram(name: string): boolean {
  const found = (process.env.PATH ?? '').split(delimiter).some(folder => {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
  if (found) return true;
  if (process.env.REQUIRE_E2E === '1') throw new Error(`${name} is not installed although REQUIRE_E2E=1 requires it`);
  process.stderr.write(`skipped: tests that need ${name}, which is not installed\n`);
  return false;
}

export interface Prometheus {
  readonly url: string;
  /** Returns the series of an instant query. */
  query(promql: string): Promise<{ readonly metric: Readonly<Record<string, string>>; readonly value: number }[]>;
  /** Returns `data` of an HTTP API response, such as `/api/v1/targets`. */
  get(path: string): Promise<unknown>;
  /** Kills the process but keeps its data and address. */
  kill(): Promise<void>;
  /** Restarts the killed process. Throws with its output if it does not become ready. */
  startAgain(): Promise<void>;
  /** Stops the process and deletes its data. */
  stop(): Promise<void>;
}

export interface PrometheusOptions {
  /** The section scrape_configs. The default interval is one second. */
  readonly scrapeConfigs: readonly object[];
  /** Other sections of the configuration. */
  readonly config?: object;
  readonly flags?: readonly string[];
  /** Program to run instead of `prometheus`. */
  readonly program?: string;
}

/** Returns a port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('a TCP server has no port');
  return address.port;
}

/** Time limit for starting and for stopping Prometheus (ms). */
const DEADLINE_MS = 20_000;

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const killer = setTimeout(() => child.kill('SIGKILL'), atThisLoad(DEADLINE_MS));
  child.kill('SIGTERM');
  await once(child, 'exit');
  clearTimeout(killer);
}

async function isReady(child: ChildProcess, url: string): Promise<boolean> {
  const start = performance.now();
  while (child.exitCode === null && performance.now() - start < atThisLoad(DEADLINE_MS)) {
    const answer = await fetch(`${url}/-/ready`).catch(() => undefined);
    if (answer?.ok) return true;
    await sleep(50);
  }
  return false;
}

/** Starts a real Prometheus with an empty database. Throws with its output if it does not become ready. */
export async function startPrometheus({
  scrapeConfigs,
  config = {},
  flags = [],
  program = 'prometheus',
}: PrometheusOptions): Promise<Prometheus> {
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-prometheus-'));
  const file = join(folder, 'prometheus.yml');
  const global = { scrape_interval: '1s', evaluation_interval: '1s' };
  // Prometheus reads YAML, which includes JSON.
  writeFileSync(file, JSON.stringify({ global, ...config, scrape_configs: scrapeConfigs }));
  const data = join(folder, 'data');
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const paths = [`--config.file=${file}`, `--storage.tsdb.path=${data}`];
  let child: ChildProcess | undefined;
  const killNow = () => void child?.kill('SIGKILL');
  process.once('exit', killNow);

  async function stop(): Promise<void> {
    if (child) await end(child);
    process.off('exit', killNow);
    rmSync(folder, { recursive: true, force: true });
  }

  async function get(path: string): Promise<unknown> {
    const answer = (await (await fetch(url + path)).json()) as { status: string; data: unknown; error?: string };
    if (answer.status !== 'success') throw new Error(`Prometheus answered ${path} with: ${answer.error}`);
    return answer.data;
  }

  async function start(): Promise<void> {
    const started = spawn(program, [...paths, `--web.listen-address=127.0.0.1:${port}`, ...flags], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    child = started;
    let output = '';
    started.stderr.on('data', chunk => {
      output = (output + chunk).slice(-4000);
    });
    if (await isReady(started, url)) return;
    await stop();
    throw new Error(`Prometheus did not become ready:\n${output}`);
  }

  await start();
  return {
    url,
    get,
    async kill() {
      const ended = child && once(child, 'exit');
      killNow();
      await ended;
    },
    startAgain: start,
    stop,
    async query(promql) {
      const data = await get(`/api/v1/query?${new URLSearchParams({ query: promql })}`);
      const { result } = data as { result: { metric: Record<string, string>; value: [number, string] }[] };
      return result.map(({ metric, value }) => ({ metric, value: Number(value[1].replace('Inf', 'Infinity')) }));
    },
  };
}
