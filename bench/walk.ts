import { monitorEventLoopDelay } from 'node:perf_hooks';
import { createDlq } from '../src/collectors/dlq/dlq.ts';
import { collectOptions } from '../src/collectors/index.ts';
import { CONCURRENCY, createBenchClient } from './client.ts';
import { table, targets, timingsOf } from './measure.ts';
import { startEmulator } from './processes.ts';

const LATENCY = 20;
const PAGE = 100;
const LARGE = 100_000;
const HUGE = 1_000_000;

/** Starts an emulator with these dead letters and a latency for every response. */
const startQueue = (entries: { dlqEntries: number; spread?: number }, latencyMs: number) =>
  startEmulator({ ...entries, history: 0, workload: false, ...(latencyMs > 0 ? { faults: [{ latencyMs }] } : {}) });

/** Creates the dead-letter queue collector with the real client and without a store. */
async function createWatcher({ url, token }: { url: string; token: string }) {
  let calls = 0;
  const { client } = await createBenchClient(url, token, {
    inc: () => {
      calls += 1;
    },
  });
  const api = client.at('background');
  const dlq = createDlq(collectOptions.parse({}).dlq);
  const signal = new AbortController().signal;
  let memory = dlq.restore(new Map());

  async function measured(work: () => Promise<void>) {
    const delay = monitorEventLoopDelay({ resolution: 1 });
    const before = calls;
    delay.enable();
    const start = performance.now();
    await work();
    const ms = performance.now() - start;
    delay.disable();
    return { ms, calls: calls - before, delayP99: delay.percentile(99) / 1e6 };
  }
  return {
    round: (round: string) =>
      measured(async () => {
        let walk: Parameters<typeof dlq.observe>[0]['walk'];
        do {
          const step = await dlq.observe({ api, round, now: Date.now(), memory, walk, signal });
          ({ memory } = step.fold(memory));
          walk = step.more;
        } while (walk !== undefined);
      }),
    /** Reads the pages sequentially, like most monitors. */
    sequential: () =>
      measured(async () => {
        const pages = api.dlqPages({}, signal);
        while (!(await pages.next()).done);
      }),
  };
}

const mib = (bytes: number) => bytes / 1024 / 1024;
const settle = async () => {
  for (let turn = 0; turn < 5; turn += 1) {
    globalThis.gc?.();
    await new Promise(resolve => setTimeout(resolve, 50));
  }
};

/** Measures a complete walk of a large queue and the cost of finding new entries. */
export async function run(): Promise<string> {
  const large = await startQueue({ dlqEntries: 0, spread: LARGE }, LATENCY);
  const watcher = await createWatcher(large);
  const sequential = await watcher.sequential();
  const first = await watcher.round('full');
  const later = [await watcher.round('full'), await watcher.round('full'), await watcher.round('full')];
  await watcher.round('new');
  const quiet = [await watcher.round('new'), await watcher.round('new'), await watcher.round('new')];
  await large.stop();

  const least = LARGE / PAGE;
  const median = (pick: (each: (typeof later)[0]) => number) => timingsOf(later.map(pick)).median;
  const [ms, calls] = [median(each => each.ms), median(each => each.calls)];
  const ideal = (calls * LATENCY) / CONCURRENCY;
  const measured: [string, typeof first][] = [
    ['sequential pages', sequential],
    ['first walk', first],
    ['later walks (median of 3)', { ms, calls, delayP99: Math.max(...later.map(({ delayP99 }) => delayP99)) }],
    ['a check for new entries, without any', quiet[0] as typeof first],
  ];
  const rows = measured.map(([what, { ms, calls, delayP99 }]) => [
    what,
    ms.toFixed(0),
    String(calls),
    delayP99.toFixed(1),
  ]);

  const huge = await startQueue({ dlqEntries: HUGE }, 0);
  const other = await createWatcher(huge);
  await settle();
  const before = process.memoryUsage();
  let peak = before.rss;
  const sampling = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().rss);
  }, 20);
  const walked = await other.round('full');
  clearInterval(sampling);
  await settle();
  const after = process.memoryUsage();
  await huge.stop();
  const kept = mib(after.heapUsed + after.arrayBuffers - before.heapUsed - before.arrayBuffers);

  const ratios: [string, string, string, boolean][] = [
    ['later walks, time ÷ (calls × latency ÷ 8)', `${(ms / ideal).toFixed(2)}×`, '≤ 1.2×', ms / ideal <= 1.2],
    ['later walks, calls ÷ least', `${(calls / least).toFixed(3)}×`, '≤ 1.02×', calls / least <= 1.02],
    ['first walk, calls ÷ least', `${(first.calls / least).toFixed(3)}×`, '≤ 1.05×', first.calls / least <= 1.05],
    ['calls of a check without new entries', String(quiet[0]?.calls), '1', quiet.every(({ calls }) => calls === 1)],
    ['sequential pages ÷ later walks, time', `${(sequential.ms / ms).toFixed(1)}×`, '–', true],
    [`memory added by a walk of ${HUGE} entries, MiB`, kept.toFixed(0), '≤ 40', kept <= 40],
  ];
  return [
    `A queue of ${LARGE} entries of two days, in an emulator in a separate process, ${LATENCY} ms per call, ${CONCURRENCY} concurrent calls. The event-loop delay is measured in the watching process.`,
    table(['what', 'ms', 'calls', 'p99 delay ms'], rows),
    targets(ratios),
    `A first walk of ${HUGE} entries without latency took ${(walked.ms / 1000).toFixed(1)} s, ${walked.calls} calls, with an event-loop delay of ${walked.delayP99.toFixed(1)} ms (p99); at its peak the process had ${mib(peak - before.rss).toFixed(0)} MiB more than before, including garbage${globalThis.gc ? '' : ' (run with --expose-gc to exclude it)'}.`,
  ].join('\n\n');
}
