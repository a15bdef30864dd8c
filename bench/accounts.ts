import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { table, timeGet, timingsOf } from './measure.ts';
import { memoryOf, startAgent, startEmulator } from './processes.ts';
import type { Stalls } from './stalls.ts';

const ACCOUNTS = 1000;
/** Faults, each with the number of accounts that have it. The first accounts are faulty, all others are healthy. */
const FAULTS: readonly {
  readonly what: string;
  readonly count: number;
  readonly fault?: object;
  readonly isDead?: true;
}[] = [
  { what: 'at a closed port', count: 100, isDead: true },
  { what: 'that never respond', count: 20, fault: { kind: 'hang' } },
  { what: 'that respond after 20 s', count: 20, fault: { latencyMs: 20_000 } },
  { what: 'with half a body', count: 20, fault: { kind: 'truncate' } },
  { what: 'that send a body byte by byte', count: 20, fault: { kind: 'drip' } },
  { what: 'with an HTML page', count: 20, fault: { kind: 'html' } },
  { what: 'with a reset connection', count: 20, fault: { kind: 'reset' } },
  { what: 'with a rejected token', count: 20, fault: { kind: 'status', status: 401 } },
];
/** The fault of each faulty account, by account index. */
const FAULT_OF = FAULTS.flatMap(each => Array.from({ length: each.count }, () => each));
/** Duration of the measurement, and time limit for the first read of all healthy accounts (ms). */
const MEASURED = 40_000;
const MAX_START = 180_000;
const HEALTHY = ACCOUNTS - FAULT_OF.length;

/** Sums a metric's values by account number. */
function byAccount(text: string, name: string, isCounted = (_line: string) => true): Map<number, number> {
  const values = new Map<number, number>();
  for (const line of text.split('\n')) {
    if (!line.startsWith(`${name}{`) || !isCounted(line)) continue;
    const [, account = '', value = ''] = /account="production-(\d+)".*} (\S+)$/.exec(line) ?? [];
    values.set(Number(account), (values.get(Number(account)) ?? 0) + Number(value));
  }
  return values;
}

function socketsOf(pid: number): number {
  const folder = `/proc/${pid}/fd`;
  const isSocket = (file: string) => {
    try {
      return readlinkSync(join(folder, file)).startsWith('socket:');
    } catch {
      return false; // closed since the folder was listed
    }
  };
  return readdirSync(folder).filter(isSocket).length;
}

/** Counts the healthy accounts that are up. */
const upIn = (text: string) =>
  [...byAccount(text, 'delivery_up')].filter(([account, up]) => account >= FAULT_OF.length && up === 1).length;

/** Waits for the first read of all healthy accounts. Returns the duration and the number of accounts that are up. */
async function started(url: string): Promise<{ up: number; ms: number }> {
  const start = performance.now();
  for (;;) {
    await new Promise(resolve => setTimeout(resolve, 5000));
    const up = upIn(await (await fetch(`${url}/metrics`)).text());
    const ms = performance.now() - start;
    process.stderr.write(`accounts: ${up} of ${HEALTHY} are up after ${(ms / 1000).toFixed(0)} s\n`);
    if (up >= HEALTHY || ms > MAX_START) return { up, ms };
  }
}

/** Measures a process with a thousand accounts, some faulty, at default intervals. Each account has its own token and rows. */
export async function run(): Promise<string> {
  const faults = FAULT_OF.map(({ fault }) => (fault ? [fault] : []));
  const emulator = await startEmulator({ accounts: ACCOUNTS, dlqEntries: 300, history: 600_000, faultsOf: faults });
  const { url, tokens } = emulator;
  const accounts = tokens.map((_, index) => ({
    name: `production-${index}`,
    baseUrl: FAULT_OF[index]?.isDead ? 'http://127.0.0.1:1' : url,
    token: { env: `TOKEN_${index}` },
  }));
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-bench-'));
  const stalls = join(folder, 'stalls.json');
  const agent = await startAgent(
    { accounts },
    {
      ...Object.fromEntries(tokens.map((token, index) => [`TOKEN_${index}`, token])),
      NODE_OPTIONS: `--import=${new URL('./stalls.ts', import.meta.url).href}`,
      STALLS: stalls,
    },
  );
  try {
    const atStart = await started(agent.url);
    // Each scrape resets the histogram of the event loop delay.
    await timeGet(`${agent.url}/metrics/agent`, {});
    process.kill(agent.pid, 'SIGUSR2');
    const begun = performance.now();
    const times: number[] = [];
    const delays: number[] = [];
    let bytes = 0;
    for (const end = performance.now() + MEASURED; performance.now() < end; ) {
      await new Promise(resolve => setTimeout(resolve, 5000));
      const scrape = await timeGet(`${agent.url}/metrics`, { 'accept-encoding': 'gzip' });
      times.push(scrape.ms);
      bytes = scrape.bytes;
      const text = await (await fetch(`${agent.url}/metrics/agent`)).text();
      delays.push(Number(/^nodejs_eventloop_lag_p99_seconds (\S+)$/m.exec(text)?.[1] ?? Number.NaN) * 1000);
    }
    const text = await (await fetch(`${agent.url}/metrics`)).text();
    const series = text.split('\n').filter(line => line !== '' && !line.startsWith('#')).length;
    const isHealthy = ([account]: readonly [number, number]) => account >= FAULT_OF.length;
    const healthy = (name: string, isCounted?: (line: string) => boolean) =>
      [...byAccount(text, name, isCounted)].filter(isHealthy);
    const stale = healthy('delivery_collector_data_stale').filter(([, rounds]) => rounds > 0).length;
    const failed = healthy('delivery_watch_api_requests_total', line => !line.includes('outcome="ok"'));
    const { median } = timingsOf(times);
    const p99 = timingsOf(delays).median;
    const memory = { now: memoryOf(agent.pid, 'VmRSS'), peak: memoryOf(agent.pid, 'VmHWM') };
    const sockets = socketsOf(agent.pid);
    const ms = performance.now() - begun;
    await agent.stop();
    const { turns } = JSON.parse(readFileSync(stalls, 'utf8')) as Stalls;
    const busy = turns.reduce((sum, turn) => sum + turn, 0) / ms;
    const rows = [
      [
        `healthy accounts that were up after ${(atStart.ms / 1000).toFixed(0)} s (${MAX_START / 1000} s at most)`,
        `${atStart.up} of ${HEALTHY}`,
        'all',
      ],
      ['healthy accounts that are up at the end', `${upIn(text)} of ${HEALTHY}`, 'all'],
      ['healthy accounts with stale data', String(stale), '0'],
      ['requests of healthy accounts that failed', String(failed.reduce((sum, [, count]) => sum + count, 0)), '0'],
      ['event-loop delay, p99, ms', p99.toFixed(0), '≤ 15'],
      ['turn of the main thread, p99, ms of its processor time', timingsOf(turns).p99.toFixed(1), '–'],
      ['longest turn of the main thread, ms of its processor time', Math.max(...turns).toFixed(0), '–'],
      ['main thread busy, % of a processor', (busy * 100).toFixed(0), '–'],
      ['scrape, median ms', median.toFixed(0), '–'],
      ['scrape, slowest ms', Math.max(...times).toFixed(0), '≤ 500'],
      ['series', String(series), '–'],
      ['bytes, gzip', String(bytes), '–'],
      ['sockets', String(sockets), '–'],
      ['resident memory, MiB', memory.now.toFixed(0), '≤ 900'],
      ['peak resident memory, MiB', memory.peak.toFixed(0), '–'],
    ];
    const failing = FAULTS.map(({ what, count }) => `${count} ${what}`).join(', ');
    return `${ACCOUNTS} accounts in one process, ${MEASURED / 1000} s after their start, with the default intervals, each with a separate token, queue and log. The emulator runs on the same cores. Failing accounts: ${failing}. Scraped every 5 s. The event-loop delay is measured by a timer and includes its interval of 10 ms. Processor time of the main thread is the duration of its turns on a machine without other load.\n\n${table(['what', 'is', 'wanted'], rows)}`;
  } finally {
    await agent.stop();
    await emulator.stop();
    rmSync(folder, { recursive: true });
  }
}
