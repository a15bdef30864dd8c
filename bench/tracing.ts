import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { table, timingsOf } from './measure.ts';
import { memoryOf, startAgent, startEmulator } from './processes.ts';

/** Duration of the measurement, with consecutive rounds (ms). `TURNS`: number of runs of each kind of agent. */
const MEASURED = 6000;
const TURNS = 3;
/** Interval between rounds, shorter than a round, so that rounds run without a pause. */
const EVERY = '10ms';

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

/** Returns the processor time of a process in ticks of 10 ms. */
function cpuOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return Number(fields[11]) + Number(fields[12]);
}

async function measure(service: { url: string; token: string }, tracing: object): Promise<Run> {
  const budget = { requestsPerSecond: 10_000, burst: 10_000, requestsPerDay: 100_000_000 };
  // Each round reads a full page of recent events, as for a busy account.
  const events = { every: EVERY, window: '5m', overlap: '5m', lateSweep: '5m' };
  const collect = { flowControl: { enabled: false }, dlq: { enabled: false }, events };
  const accounts = [{ name: 'a', baseUrl: service.url, token: { env: 'TOKEN' }, budget }];
  const began = performance.now();
  const agent = await startAgent({ store: { kind: 'memory' }, accounts, collect, tracing }, { TOKEN: service.token });
  try {
    const rounds = async () => {
      const text = await (await fetch(`${agent.url}/metrics`)).text();
      return Number(/^delivery_watch_api_requests_total\{.*"events",outcome="ok"\} (\d+)$/m.exec(text)?.[1]);
    };
    await rounds();
    const startMs = performance.now() - began;
    await new Promise(resolve => setTimeout(resolve, 1000));
    const { pid } = agent;
    const [before, cpuBefore] = [await rounds(), cpuOf(pid)];
    await new Promise(resolve => setTimeout(resolve, MEASURED));
    const [after, cpuAfter] = [await rounds(), cpuOf(pid)];
    return { startMs, msPerRound: ((cpuAfter - cpuBefore) * 10) / (after - before), memoryMiB: memoryOf(pid, 'VmRSS') };
  } finally {
    await agent.stop();
  }
}

/** Measures the processor time of tracing in consecutive rounds that read a page of events. The trace receiver accepts all spans. */
export async function run(): Promise<string> {
  const emulator = await startEmulator({ dlqEntries: 0, history: 600_000 });
  const receiver = createServer((request, response) => {
    request.resume().on('end', () => response.end());
  }).listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  const endpoint = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;
  const runs = new Map<string, Run[]>(Object.keys(KINDS).map(kind => [kind, []]));
  try {
    for (let turn = 0; turn < TURNS; turn += 1) {
      for (const [kind, tracing] of Object.entries(KINDS)) {
        runs.get(kind)?.push(await measure(emulator, { ...tracing, endpoint }));
      }
    }
  } finally {
    receiver.close();
    await emulator.stop();
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
  return `Sequential rounds that read a page of events. Median of ${TURNS} runs of ${MEASURED / 1000} s; the targets are a start within 500 ms without tracing, and 10 % more processor time with the default sampling.\n\n${table(head, rows)}`;
}
