import { fork } from 'node:child_process';
import { once } from 'node:events';
import { EVENTS, START, WEEK } from './backtest-server.ts';
import { load, table, targets } from './measure.ts';

type Backtest = typeof import('../src/app/backtest/backtest.ts');
type Load = typeof import('../src/config/load.ts');

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

const cpuOf = ({ user, system }: NodeJS.CpuUsage) => (user + system) / 1e6;

/** Ten million events of a week: from HTTP to what every rule would have told. */
export async function run(): Promise<string> {
  const { backtest } = await load<Backtest>('app/backtest/backtest.js');
  const { parseConfig } = await load<Load>('config/load.js');
  const server = fork(new URL('./backtest-server.ts', import.meta.url));
  const [url] = (await once(server, 'message')) as [string];
  try {
    const loaded = parseConfig(configText(url), 'bench.yaml');
    let memory = 0;
    const watch = setInterval(() => {
      memory = Math.max(memory, process.memoryUsage.rss());
    }, 100);
    const before = process.cpuUsage();
    const start = performance.now();
    const deps = { env: {}, random: () => 0.5, onProgress: () => undefined };
    const { systemClock: clock } = await load<typeof import('../src/kit/clock.ts')>('kit/clock.js');
    const range = { from: START, to: START + WEEK };
    const [outcome] = await backtest(loaded, { ...deps, clock }, range, new AbortController().signal);
    const seconds = (performance.now() - start) / 1000;
    const own = cpuOf(process.cpuUsage(before));
    clearInterval(watch);
    server.send('cpu');
    const [ofServer] = (await once(server, 'message')) as [NodeJS.CpuUsage];
    if (!outcome?.result) throw new Error(outcome?.failure ?? 'no account');
    const { events, alerts } = outcome.result;
    const rows = [
      ['wall clock', seconds.toFixed(1)],
      ['processor, the command, all threads', own.toFixed(1)],
      ['processor, the service that it reads', cpuOf(ofServer).toFixed(1)],
    ];
    const told = alerts.map(({ name, firings }) => `${name} ${firings.length}`).join(', ');
    const mb = Math.round(memory / 2 ** 20);
    return [
      `A log of ${events} events of about 1 KB in a week, ${outcome.requests} calls over loopback HTTP, folded every 15 s and judged by three alerts and the shipped ones on error budgets. Fired: ${told}.`,
      table(['what', 'seconds'], rows),
      targets([
        [`${EVENTS / 1e6} million events, seconds on two cores`, seconds.toFixed(1), '≤ 60', seconds <= 60],
        ['memory, MB', String(mb), '≤ 400', mb <= 400],
      ]),
    ].join('\n\n');
  } finally {
    server.kill('SIGTERM');
  }
}
