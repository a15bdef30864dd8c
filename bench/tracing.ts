import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { table, timingsOf } from './measure.ts';

/** Milliseconds in which rounds follow one another as fast as they can, and how often each kind of agent has a turn. */
const MEASURED = 6000;
const TURNS = 3;
/** Milliseconds between rounds: less than a round takes. */
const EVERY = '1ms';

const KINDS = {
  off: { enabled: false },
  'on, a tenth sampled': { enabled: true, sampleRatio: 0.1 },
  'on, all sampled': { enabled: true, sampleRatio: 1 },
};

interface Run {
  readonly startMs: number;
  readonly msPerRound: number;
  readonly memoryMiB: number;
}

async function stop(child: ChildProcess): Promise<void> {
  child.kill('SIGTERM');
  await once(child, 'exit');
}

/** Ticks of 10 ms that a process has had of the processor. */
function cpuOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return Number(fields[11]) + Number(fields[12]);
}

async function measure(service: { url: string; token: string }, tracing: object): Promise<Run> {
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-bench-'));
  const file = join(folder, 'config.yaml');
  const budget = { requestsPerSecond: 10_000, burst: 10_000, requestsPerDay: 100_000_000 };
  // A full page of the last minutes each time, which is what a busy account has.
  const events = { every: EVERY, window: '5m', overlap: '5m', lateSweep: '5m' };
  const collect = { flowControl: { enabled: false }, dlq: { enabled: false }, events };
  const accounts = [{ name: 'a', baseUrl: service.url, token: { env: 'TOKEN' }, budget }];
  const server = { listen: '127.0.0.1:0' };
  writeFileSync(file, JSON.stringify({ server, store: { kind: 'memory' }, accounts, collect, tracing }));
  const main = new URL('../dist/main.js', import.meta.url).pathname;
  const began = performance.now();
  const agent = spawn(process.execPath, [main, 'serve', '--config', file], {
    env: { TOKEN: service.token },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  try {
    let said = '';
    agent.stderr.on('data', (chunk: Buffer) => {
      said += chunk;
    });
    while (!/"url":"/.test(said)) await new Promise(resolve => setTimeout(resolve, 5));
    const [, page = ''] = /"url":"([^"]+)"/.exec(said) ?? [];
    const rounds = async () => {
      const text = await (await fetch(`${page}/metrics`)).text();
      return Number(/^delivery_watch_api_requests_total\{.*"events",outcome="ok"\} (\d+)$/m.exec(text)?.[1]);
    };
    await rounds();
    const startMs = performance.now() - began;
    await new Promise(resolve => setTimeout(resolve, 1000));
    const pid = agent.pid as number;
    const [before, cpuBefore] = [await rounds(), cpuOf(pid)];
    await new Promise(resolve => setTimeout(resolve, MEASURED));
    const [after, cpuAfter] = [await rounds(), cpuOf(pid)];
    const memory = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    return { startMs, msPerRound: ((cpuAfter - cpuBefore) * 10) / (after - before), memoryMiB: Number(memory) / 1024 };
  } finally {
    await stop(agent);
    rmSync(folder, { recursive: true });
  }
}

/** What tracing costs: rounds of a page of events as fast as they go, by processor time, beside a receiver that takes all. */
export async function run(): Promise<string> {
  const emulator = fork(new URL('./emulator-server.ts', import.meta.url), [
    JSON.stringify({ dlqEntries: 0, history: 600_000 }),
  ]);
  const [service] = (await once(emulator, 'message')) as [{ url: string; token: string }];
  const receiver = createServer((request, response) => {
    request.resume().on('end', () => response.end());
  }).listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  const endpoint = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;
  const runs = new Map<string, Run[]>(Object.keys(KINDS).map(kind => [kind, []]));
  try {
    for (let turn = 0; turn < TURNS; turn += 1) {
      for (const [kind, tracing] of Object.entries(KINDS)) {
        runs.get(kind)?.push(await measure(service, { ...tracing, endpoint }));
      }
    }
  } finally {
    receiver.close();
    await stop(emulator);
  }
  const median = (kind: string, of: keyof Run) => timingsOf((runs.get(kind) ?? []).map(run => run[of])).median;
  const rows = Object.keys(KINDS).map(kind => [
    kind,
    median(kind, 'startMs').toFixed(0),
    median(kind, 'memoryMiB').toFixed(0),
    median(kind, 'msPerRound').toFixed(2),
    `${((median(kind, 'msPerRound') / median('off', 'msPerRound') - 1) * 100).toFixed(0)} %`,
  ]);
  const head = ['tracing', 'start to /metrics, ms', 'memory, MiB', 'processor time a round, ms', 'more than off'];
  return `Rounds that read a page of events, one after the other. Median of ${TURNS} runs of ${MEASURED / 1000} s; wanted are 500 ms to start without tracing, and 10 % more with the default sampling.\n\n${table(head, rows)}`;
}
