import { fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { EVENTS, START, WEEK } from './backtest-server.ts';
import { table, targets } from './measure.ts';

const MAIN = fileURLToPath(new URL('../dist/main.js', import.meta.url));

const configText = (url: string) => `
accounts: [{ name: bench, baseUrl: '${url}', token: bench, budget: { requestsPerSecond: 10000, burst: 10000, concurrency: 16, requestsPerDay: 100000000 } }]
collect: { dlq: { enabled: false }, flowControl: { enabled: false } }
alerts:
  enabled: true
  rules:
    - { name: Failures, when: { growth: { metric: delivery_messages_finished_total, labels: { outcome: failed }, over: 15m, atLeast: 10 } } }
    - { name: Errors, when: { ratio: { part: { metric: delivery_messages_finished_total, labels: { outcome: failed } }, whole: { metric: delivery_messages_finished_total }, over: 1h, above: 0.05 } }, for: 5m }
    - { name: InFlight, when: { above: { metric: delivery_messages_in_flight, value: 1000 } } }
`;

/** Seconds of the processor that a process has taken, all threads together, and the most memory that it ever had, MB. */
function usageOf(pid: number): { cpu: number; memory: number } {
  const [, after = ''] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ');
  const fields = after.split(' ');
  const [, kilobytes = '0'] = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return { cpu: (Number(fields[11]) + Number(fields[12])) / 100, memory: Math.round(Number(kilobytes) / 1024) };
}

interface Told {
  readonly accounts: readonly [
    {
      readonly events: number;
      readonly requests: number;
      readonly alerts: readonly { readonly name: string; readonly firings: readonly unknown[] }[];
    },
  ];
}

/** The command as users run it, watched from outside. */
async function runCommand(config: string) {
  const range = ['--from', new Date(START).toISOString(), '--to', new Date(START + WEEK).toISOString()];
  const start = performance.now();
  const command = spawn(process.execPath, [MAIN, 'rules', 'backtest', '--config', config, '--json', ...range], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(command, 'exit');
  const told = text(command.stdout);
  let usage = { cpu: 0, memory: 0 };
  let isRunning = true;
  void exited.then(() => {
    isRunning = false;
  });
  while (isRunning && command.pid !== undefined) {
    try {
      const now = usageOf(command.pid);
      // Of one that has just ended, its memory is gone.
      usage = { cpu: now.cpu, memory: Math.max(usage.memory, now.memory) };
    } catch {
      // It has just ended.
    }
    await sleep(100);
  }
  const seconds = (performance.now() - start) / 1000;
  const [account] = (JSON.parse(await told) as Told).accounts;
  return { seconds, ...usage, account };
}

/** Ten million events of a week: from HTTP to what every rule would have told. */
export async function run(): Promise<string> {
  const server = fork(new URL('./backtest-server.ts', import.meta.url));
  const [url] = (await once(server, 'message')) as [string];
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-bench-'));
  try {
    const config = join(folder, 'config.yaml');
    writeFileSync(config, configText(url));
    const { seconds, cpu, memory, account } = await runCommand(config);
    const served = usageOf(server.pid ?? 0).cpu;
    const rows = [
      ['wall clock', seconds.toFixed(1)],
      ['processor, the command, both threads', cpu.toFixed(1)],
      ['processor, the service that it reads', served.toFixed(1)],
    ];
    const told = account.alerts.map(({ name, firings }) => `${name} ${firings.length}`).join(', ');
    return [
      `A log of ${account.events} events of about 1 KB in a week, ${account.requests} calls over loopback HTTP, folded every 15 s and judged by three alerts and the shipped ones on error budgets. Fired: ${told}.`,
      table(['what', 'seconds'], rows),
      targets([
        [`${EVENTS / 1e6} million events, seconds on two cores`, seconds.toFixed(1), '≤ 60', seconds <= 60],
        ['memory, MB', String(memory), '≤ 400', memory <= 400],
      ]),
    ].join('\n\n');
  } finally {
    server.kill('SIGTERM');
    rmSync(folder, { recursive: true });
  }
}
