import { table } from './measure.ts';
import { memoryOf, startAgent, startEmulator } from './processes.ts';

/** Numbers of accounts, each measured with a separate agent. */
const ROWS = [
  { what: '1 account', accounts: 1 },
  { what: '10 accounts', accounts: 10 },
  { what: '100 accounts', accounts: 100 },
  { what: '300 accounts', accounts: 300 },
] as const;
const DLQ_ENTRIES = 300;
/** Duration of the traffic before the agent starts (ms). */
const HISTORY = 600_000;
/** Delay between the first walks and the measurement, and duration of the measurement (ms). */
const WARM_UP = 30_000;
const MEASURED = 60_000;
const DAY = 86_400_000;

const after = (ms: number) => new Promise(resolve => setTimeout(resolve, ms));

/** Sums a metric's samples. */
function total(text: string, name: string): number {
  const lines = text.split('\n').filter(line => line.startsWith(`${name} `) || line.startsWith(`${name}{`));
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
}

async function measure({ what, accounts: count }: (typeof ROWS)[number]): Promise<string[]> {
  const emulator = await startEmulator({ accounts: count, dlqEntries: DLQ_ENTRIES, history: HISTORY });
  const accounts = emulator.tokens.map((_, index) => ({
    name: `production-${index}`,
    baseUrl: emulator.url,
    token: { env: `TOKEN_${index}` },
  }));
  const tokens = Object.fromEntries(emulator.tokens.map((token, index) => [`TOKEN_${index}`, token]));
  const agent = await startAgent({ accounts }, tokens);
  const scrape = async () => (await fetch(`${agent.url}/metrics`)).text();
  try {
    await after(WARM_UP);
    const before = await scrape();
    const start = performance.now();
    while (performance.now() - start < MEASURED) {
      await after(15_000);
      await scrape();
    }
    const text = await scrape();
    const aDay = (name: string) => ((total(text, name) - total(before, name)) * DAY) / (performance.now() - start);
    const whole = (value: number) => Math.round(value).toLocaleString('en-US');
    return [
      what,
      whole(text.split('\n').filter(line => line !== '' && !line.startsWith('#')).length),
      whole(memoryOf(agent.pid, 'VmRSS')),
      whole(memoryOf(agent.pid, 'VmHWM')),
      (aDay('process_cpu_seconds_total') / (DAY / 60_000)).toFixed(2),
      whole(aDay('delivery_watch_api_requests_total') / count),
      whole(aDay('delivery_watch_api_response_bytes_total') / count / 1e6),
    ];
  } finally {
    await agent.stop();
    await emulator.stop();
  }
}

/** Measures memory and processor time of an agent by number of accounts, for docs/limits.md. Other load hardly affects the results. */
export async function run(): Promise<string> {
  const rows: string[][] = [];
  for (const row of ROWS) rows.push(await measure(row));
  const head = ['watched', 'series', 'MiB', 'MiB at most', 'CPU s a minute', 'calls a day', 'MB a day'];
  return `An agent with the default intervals, scraped every 15 s, after ${WARM_UP / 1000} s for ${MEASURED / 1000} s; each account has the emulator's usual traffic. Calls and bytes are per account.\n\n${table(head, rows)}`;
}
