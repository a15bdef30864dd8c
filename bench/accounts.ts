import { fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { table, timeGet, timingsOf } from './measure.ts';

const ACCOUNTS = 1000;
const DEAD = 100;
const HANGING = 20;
/** Milliseconds from the start until measuring begins, and of measuring. */
const WARM_UP = 25_000;
const MEASURED = 40_000;

/** A thousand accounts in one process with the usual intervals, some of them dead or hanging. */
export async function run(): Promise<string> {
  const options = { dlqEntries: 300, history: 600_000 };
  const emulator = fork(new URL('./emulator-server.ts', import.meta.url), [JSON.stringify(options)]);
  const [{ url, token }] = (await once(emulator, 'message')) as [{ url: string; token: string }];
  const silent = createServer(socket => socket.on('error', () => undefined)).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  const silentUrl = `http://127.0.0.1:${(silent.address() as { port: number }).port}`;
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-bench-'));
  const file = join(folder, 'config.yaml');
  const baseUrl = (index: number) => {
    if (index < DEAD) return 'http://127.0.0.1:1';
    return index < DEAD + HANGING ? silentUrl : url;
  };
  writeFileSync(
    file,
    JSON.stringify({
      server: { listen: '127.0.0.1:0' },
      store: { path: join(folder, 'store.db') },
      accounts: Array.from({ length: ACCOUNTS }, (_, index) => ({
        name: `production-${index}`,
        baseUrl: baseUrl(index),
        token: { env: 'DELIVERY_TOKEN' },
      })),
    }),
  );
  const main = new URL('../dist/main.js', import.meta.url).pathname;
  const agent = spawn(process.execPath, [main, 'serve', '--config', file], {
    env: { DELIVERY_TOKEN: token },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  try {
    let said = '';
    agent.stderr.on('data', (chunk: Buffer) => {
      said += chunk;
    });
    while (!/"url":"/.test(said)) await new Promise(resolve => setTimeout(resolve, 20));
    const [, page = ''] = /"url":"([^"]+)"/.exec(said) ?? [];
    await new Promise(resolve => setTimeout(resolve, WARM_UP));
    // Asking resets the histogram of the event loop's delay.
    await timeGet(`${page}/metrics/agent`, {});
    const times: number[] = [];
    const delays: number[] = [];
    let bytes = 0;
    for (const end = performance.now() + MEASURED; performance.now() < end; ) {
      await new Promise(resolve => setTimeout(resolve, 5000));
      const scrape = await timeGet(`${page}/metrics`, { 'accept-encoding': 'gzip' });
      times.push(scrape.ms);
      bytes = scrape.bytes;
      const text = await (await fetch(`${page}/metrics/agent`)).text();
      delays.push(Number(/^nodejs_eventloop_lag_p99_seconds (\S+)$/m.exec(text)?.[1] ?? Number.NaN) * 1000);
    }
    const text = await (await fetch(`${page}/metrics`)).text();
    const up = [...text.matchAll(/^delivery_up{[^}]*} 1$/gm)].length;
    const series = text.split('\n').filter(line => line !== '' && !line.startsWith('#')).length;
    const [, kib = ''] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${agent.pid}/status`, 'utf8')) ?? [];
    const { median } = timingsOf(times);
    const p99 = timingsOf(delays).median;
    const rows = [
      ['accounts that are up', `${up} of ${ACCOUNTS - DEAD - HANGING}`, 'all'],
      ['event-loop delay, p99, ms', p99.toFixed(0), '≤ 50'],
      ['scrape, median ms', median.toFixed(0), '–'],
      ['scrape, slowest ms', Math.max(...times).toFixed(0), '–'],
      ['series', String(series), '–'],
      ['bytes, gzip', String(bytes), '–'],
      ['resident memory, MiB', (Number(kib) / 1024).toFixed(0), '–'],
    ];
    return `${ACCOUNTS} accounts in one process for ${(WARM_UP + MEASURED) / 1000} s with the usual intervals, ${DEAD} of them at a closed port and ${HANGING} at one that never answers, beside the emulator that serves the others on the same cores. Scraped every 5 s.\n\n${table(['what', 'is', 'wanted'], rows)}`;
  } finally {
    agent.kill('SIGTERM');
    await once(agent, 'exit');
    emulator.kill();
    silent.close();
    rmSync(folder, { recursive: true });
  }
}
