import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { timeGet, timingsOf } from './measure.ts';
import { startAgent } from './processes.ts';
import type { Stalls } from './stalls.ts';

const SECONDS = 40;
const HEADERS = { 'Accept-Encoding': 'gzip', Accept: 'application/openmetrics-text;version=1.0.0,text/plain;q=0.5' };
const FLOW_CONTROL = { flowControl: { every: '5s' } };
const COLLECT: Readonly<Record<string, object>> = {
  many: FLOW_CONTROL,
  bodies: { flowControl: { enabled: false }, dlq: { every: '5s', rescanEvery: '15s' } },
  most: FLOW_CONTROL,
};

/** Runs the agent with these accounts of loop-service.ts and scrapes it every second. */
async function measured(names: readonly string[]) {
  const service = fork(new URL('./loop-service.ts', import.meta.url));
  const [port] = (await once(service, 'message')) as [number];
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-bench-'));
  const file = join(folder, 'stalls.json');
  try {
    const accounts = names.map(name => ({
      name,
      baseUrl: `http://127.0.0.1:${port}/${name}`,
      token: { env: 'TOKEN' },
      budget: { requestsPerSecond: 100, burst: 100, requestsPerDay: 1e8 },
      collect: COLLECT[name] ?? {},
    }));
    const preload = `--import=${new URL('./stalls.ts', import.meta.url).href}`;
    const agent = await startAgent({ accounts }, { TOKEN: 'bench', NODE_OPTIONS: preload, STALLS: file });
    const times: number[] = [];
    for (let second = 0; second < SECONDS; second += 1) {
      await sleep(1000);
      times.push((await timeGet(`${agent.url}/metrics`, HEADERS)).ms);
    }
    await agent.stop();
    const { turns, answers, rss } = JSON.parse(readFileSync(file, 'utf8')) as Stalls;
    return {
      longest: Math.max(...turns),
      turn: timingsOf(turns),
      answer: timingsOf(answers),
      scrape: timingsOf(times),
      rss,
    };
  } finally {
    service.kill('SIGTERM');
    rmSync(folder, { recursive: true });
  }
}

export const measureAgent = async () => ({
  quiet: await measured(['quiet', 'silent', 'still']),
  busy: await measured(['many', 'bodies', 'most']),
});
