import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { targets, timingsOf } from './measure.ts';
import { memoryOf, PACKAGE, processorTime, startAgent, startEmulator } from './processes.ts';

const SCRAPE_EVERY = 15_000;
const MINUTES = 5;
const STARTS = 7;
const DEMO_MINUTES = 5;

async function bareStart(): Promise<number> {
  const began = performance.now();
  await once(spawn(process.execPath, ['-e', '0']), 'exit');
  return performance.now() - began;
}

/** Measures wall-clock and processor time (ms) from the start of the process to the end of its first GET /metrics. */
async function start(config: object, env: Readonly<Record<string, string>>) {
  const began = performance.now();
  const agent = await startAgent(config, env);
  try {
    await (await fetch(`${agent.url}/metrics`)).text();
    return { wall: performance.now() - began, processor: processorTime(agent.pid) };
  } finally {
    await agent.stop();
  }
}

const median = (times: readonly number[]) => timingsOf(times).median;

async function starts(config: object, env: Readonly<Record<string, string>>) {
  const bare: number[] = [];
  const times: Awaited<ReturnType<typeof start>>[] = [];
  for (let at = 0; at < STARTS; at += 1) {
    bare.push(await bareStart());
    times.push(await start(config, env));
  }
  const wall = median(times.map(each => each.wall));
  const processor = median(times.map(each => each.processor));
  const ratio = (wall / median(bare)).toFixed(1);
  const is = `${wall.toFixed(0)}; ${processor.toFixed(0)} of the processor; ${ratio}× \`node -e 0\``;
  return ['start to the first /metrics, package, ms', is, '≤ 350', wall <= 350] as const;
}

async function steady(config: object, env: Readonly<Record<string, string>>) {
  const agent = await startAgent(config, env);
  try {
    for (const end = performance.now() + MINUTES * 60_000; performance.now() < end; ) {
      await new Promise(resolve => setTimeout(resolve, SCRAPE_EVERY));
      await (await fetch(`${agent.url}/metrics`)).text();
    }
    // The rest is mapped from the Node.js binary, of which other processes share most pages.
    const ownMemory = memoryOf(agent.pid, 'RssAnon');
    const memory = memoryOf(agent.pid, 'VmRSS');
    const what = `resident memory, package, one account with traffic, after ${MINUTES} min, MiB`;
    return [what, `${memory.toFixed(0)}; ${ownMemory.toFixed(0)} without files`, '≤ 100', memory <= 100] as const;
  } finally {
    await agent.stop();
  }
}

/** Measures the peak memory of the demo, in which 15 emulated minutes pass per real second. */
async function demo() {
  const args = [PACKAGE, 'demo', '--scenario', 'stuck-callback', '--listen', '127.0.0.1:0'];
  const child = spawn(process.execPath, args, { stdio: 'ignore' });
  await new Promise(resolve => setTimeout(resolve, DEMO_MINUTES * 60_000));
  const memory = memoryOf(child.pid as number, 'VmHWM');
  child.kill('SIGTERM');
  await once(child, 'exit');
  const what = `peak resident memory, demo at 900 times real time, ${DEMO_MINUTES} min, MiB`;
  return [what, memory.toFixed(0), '≤ 250', memory <= 250] as const;
}

/** Measures the resources of one process. */
export async function run(): Promise<string> {
  const emulator = await startEmulator({ accounts: 1 });
  const config = { accounts: [{ name: 'production', baseUrl: emulator.url, token: { env: 'TOKEN' } }] };
  const env = { TOKEN: emulator.token };
  try {
    const rows = [await starts(config, env), await steady(config, env)];
    return `One account of the emulator, which runs \`steady\` in a separate process; scraped every 15 s. Start: the median of ${STARTS}.\n\n${targets([...rows, await demo()])}`;
  } finally {
    await emulator.stop();
  }
}
