import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { createEvents, events as kind } from '../src/collectors/events/events.ts';
import { withReader } from '../src/collectors/index.ts';
import { createCollectorState } from '../src/scheduler/board.ts';
import { createRunner } from '../src/scheduler/runner.ts';
import { openSqliteStore } from '../src/store/sqlite.ts';
import { createPageSizes, createReader } from '../src/upstream/api.ts';
import { eventsPath } from '../src/upstream/paginate.ts';
import { createBenchClient, NO_TRACER, NOWHERE } from './client.ts';
import { APART, answer, PAGES, pages, ROWS, START } from './ingest-pages.ts';
import { processorTime, table, targets, timingsOf } from './measure.ts';

type Log = import('../src/kit/log.ts').Log;

const REPEATS = 7;

const NOW = START + PAGES * ROWS * APART;
/** A checkpoint before the first event, so that the backlog contains all events. */
const CHECKPOINT = {
  floor: START - 1,
  newest: START - 1,
  rememberedFrom: START - 60_000,
  readTo: START - 1,
  lags: { since: START - 1, now: 0, before: 0 },
  judgedTo: START - 60_000,
  judgedLast: START - 1,
  sweptTo: START - 1,
  nextChunk: 0,
};
const STORED: ReadonlyMap<string, string> = new Map([['checkpoint', JSON.stringify(CHECKPOINT)]]);
const EVENTS = PAGES * ROWS;

async function inMemory() {
  const requested: string[] = [];
  const api = createReader({
    sizes: createPageSizes(),
    priority: 'events',
    flowControlKeyPath: '',
    clock: { now: () => NOW },
    events: eventsPath('auto'),
    meter: { rowsRejected: NOWHERE, listsMissing: NOWHERE },
    secrets: () => [],
    acceptList: () => true,
    async call({ query }) {
      const text = answer(query);
      requested.push(text);
      return { status: 200, body: JSON.parse(text), wait: undefined };
    },
  });
  const events = createEvents(kind.options.parse({ destination: 'host', window: '1m' }));
  let memory = events.restore(STORED);
  let walk: Parameters<typeof events.observe>[0]['walk'];
  const signal = new AbortController().signal;
  const start = processorTime();
  do {
    const step = await events.observe({ api, round: 'tail', now: NOW, memory, walk, signal });
    ({ memory } = step.fold(memory));
    walk = step.more;
  } while (walk !== undefined);
  const ms = processorTime() - start;
  const parseStart = processorTime();
  for (const text of requested) JSON.parse(text);
  return { ms, parseMs: processorTime() - parseStart, pages: requested.length };
}

/** Ingests like `inMemory`, but with the real client over loopback HTTP, and commits every window to SQLite. */
async function throughEverything(url: string): Promise<{ ms: number; longest: number }> {
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-bench-'));
  const { client, dispatcher, systemClock } = await createBenchClient(url, 'bench');
  const store = await openSqliteStore({ path: join(folder, 'store.db') });
  try {
    const events = createEvents(kind.options.parse({ destination: 'host', window: '1m' }));
    await store.commit('a', [{ key: 'events/checkpoint', value: STORED.get('checkpoint') ?? null }]);
    const fail = (_fields: object, message: string) => {
      throw new Error(message);
    };
    const quiet = { debug: () => undefined, info: () => undefined, warn: fail, error: fail };
    const log: Log = { ...quiet, child: () => log };
    const run = await createRunner({
      observer: { ...withReader(events, client.at), recall: () => undefined },
      state: createCollectorState(
        { account: 'a', collector: 'events' },
        { tail: { every: 15_000 } },
        { markAfter: 3, withdrawAfter: 20, withdrawAtMost: 1_800_000 },
        systemClock,
      ),
      store,
      clock: { ...systemClock, now: () => NOW },
      log,
      tracer: NO_TRACER,
    });
    // Measure the longest delay of other work in the process, such as a scrape.
    const delay = monitorEventLoopDelay({ resolution: 1 });
    delay.enable();
    const start = processorTime();
    await run('tail', new AbortController().signal);
    const ms = processorTime() - start;
    delay.disable();
    return { ms, longest: delay.max / 1e6 };
  } finally {
    await store.close();
    await dispatcher.destroy();
    rmSync(folder, { recursive: true });
  }
}

/** Measures the ingestion of an event log backlog, from bytes to committed counters. */
export async function run(): Promise<string> {
  const runs: Awaited<ReturnType<typeof inMemory>>[] = [];
  const whole: Awaited<ReturnType<typeof throughEverything>>[] = [];
  const server = fork(new URL('./ingest-server.ts', import.meta.url));
  const [url] = (await once(server, 'message')) as [string];
  try {
    for (let repeat = 0; repeat < REPEATS; repeat += 1) {
      runs.push(await inMemory());
      whole.push(await throughEverything(url));
    }
  } finally {
    server.kill('SIGTERM');
  }
  const kept = runs.slice(2);
  const requested = kept[0]?.pages ?? 0;
  const perSecond = (ms: number, events: number) => `${Math.round(events / ms)},000`;
  const median = (times: number[]) => timingsOf(times).median;
  const parse = median(kept.map(({ parseMs }) => parseMs));
  const ingest = median(kept.map(({ ms }) => ms));
  const ratio = median(kept.map(({ ms, parseMs }) => parseMs / ms));
  const all = median(whole.slice(2).map(({ ms }) => ms));
  const rows = [
    ['JSON.parse alone, the same pages', parse.toFixed(0), perSecond(parse, requested * ROWS)],
    ['parse, check and fold, in memory', ingest.toFixed(0), perSecond(ingest, requested * ROWS)],
    ['the same over loopback HTTP, committed to SQLite', all.toFixed(0), perSecond(all, requested * ROWS)],
  ];
  const share = (what: string, is: number, wanted: number) =>
    [what, `${Math.round(is * 100)} %`, `≥ ${wanted * 100} %`, is >= wanted] as const;
  const size = Math.round((pages[0]?.last.length ?? 0) / ROWS);
  const longest = Math.max(...whole.slice(2).map(({ longest }) => longest)).toFixed(0);
  return [
    `A backlog of ${EVENTS} events of ${size} bytes, ${PAGES} pages, destinations labelled by host. Ranges that are too long, and pages that span two ranges, are read twice: ${requested} pages in all. Median of ${kept.length} runs.`,
    table(['what', 'ms of processor time', 'rows a second'], rows),
    targets([
      share('parse, check and fold ÷ JSON.parse alone, events per second', ratio, 0.6),
      share('the same over loopback HTTP, committed ÷ JSON.parse alone', parse / all, 0.3),
    ]),
    `During the commits, the event loop was delayed by at most ${longest} ms.`,
  ].join('\n\n');
}
