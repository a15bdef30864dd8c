import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createBenchClient, NO_TRACER } from './client.ts';
import { load, table, targets, timingsOf } from './measure.ts';

type Log = import('../src/kit/log.ts').Log;
type Api = typeof import('../src/upstream/api.ts');
type Collectors = typeof import('../src/collectors/index.ts');
type Events = typeof import('../src/collectors/events/events.ts');
type Sqlite = typeof import('../src/store/sqlite.ts');
type Runner = typeof import('../src/scheduler/runner.ts');
type Board = typeof import('../src/scheduler/board.ts');

const PAGES = 200;
const ROWS = 1000;
const REPEATS = 7;
const START = 1_700_000_000_000;
/** Milliseconds between two events. */
const APART = 50;

/** One event of about 1 KB: lives of three events each, on their way at the same time. */
function row(index: number): object {
  const [message, step] = [Math.floor(index / 3), index % 3];
  return {
    time: String(START + index * APART),
    messageId: `msg_26hZCxZCuWyyTWPmSVBrNB1${message.toString(36).padStart(6, '0')}`,
    state: ['CREATED', 'ACTIVE', 'DELIVERED'][step],
    url: `https://tenant-${message % 50}.example.com/hooks/payments?order=${message}`,
    method: 'POST',
    header: { 'Content-Type': ['application/json'], 'Upstash-Retries': ['3'], Authorization: ['REDACTED:5f3a'] },
    queueName: 'payments',
    maxRetries: 3,
    body: 'eyJyZWYiOiJmb28ifQ=='.repeat(30),
    ...(step === 2 ? { responseStatus: 200 } : {}),
  };
}

/** The log as ready-made pages, latest first; what a range asks for is every page that reaches into it. */
const pages = Array.from({ length: PAGES }, (_, page) => {
  const events = Array.from({ length: ROWS }, (_, index) => row(page * ROWS + ROWS - 1 - index));
  const from = START + page * ROWS * APART;
  // As two texts, so that no request has to make one.
  const texts = { last: JSON.stringify({ events }), middle: JSON.stringify({ cursor: String(page), events }) };
  return { from, to: from + ROWS * APART - 1, ...texts };
});

function answer(query: URLSearchParams): string {
  const [from, to] = [Number(query.get('fromDate')), Number(query.get('toDate'))];
  const last = Number(query.get('cursor') ?? PAGES);
  const at = pages.findLastIndex((page, index) => index < last && page.from <= to && page.to >= from);
  const more = at > 0 && (pages[at - 1]?.to ?? 0) >= from;
  return pages[at]?.[more ? 'middle' : 'last'] ?? '{"events":[]}';
}

const NOW = START + PAGES * ROWS * APART;
/** A checkpoint before everything: all of it is a backlog. */
const CHECKPOINT = {
  floor: START - 1,
  newest: START - 1,
  rememberedFrom: START - 60_000,
  readTo: START - 1,
  judgedTo: START - 60_000,
  judgedLast: START - 1,
  sweptTo: START - 1,
  nextChunk: 0,
};
const STORED: ReadonlyMap<string, string> = new Map([['checkpoint', JSON.stringify(CHECKPOINT)]]);
const EVENTS = PAGES * ROWS;

async function inMemory() {
  const { createReader, createPageSizes } = await load<Api>('upstream/api.js');
  const { createEvents, events: kind } = await load<Events>('collectors/events/events.js');
  const asked: string[] = [];
  const api = createReader({
    sizes: createPageSizes(),
    priority: 'events',
    flowControlKeyPath: '',
    onRejected: () => undefined,
    onMissing: () => undefined,
    async call({ query }) {
      const text = answer(query);
      asked.push(text);
      return { status: 200, body: JSON.parse(text), wait: undefined };
    },
  });
  const events = createEvents(kind.options.parse({ destination: 'host', window: '1m' }));
  let memory = events.restore(STORED);
  let walk: Parameters<typeof events.observe>[0]['walk'];
  const signal = new AbortController().signal;
  const start = performance.now();
  do {
    const step = await events.observe({ api, round: 'tail', now: NOW, memory, walk, signal });
    ({ memory } = step.fold(memory));
    walk = step.more;
  } while (walk !== undefined);
  const ms = performance.now() - start;
  const parseStart = performance.now();
  for (const text of asked) JSON.parse(text);
  return { ms, parseMs: performance.now() - parseStart, pages: asked.length };
}

/** The same through the real client over loopback HTTP, with every window committed to SQLite. */
async function throughEverything(): Promise<{ ms: number; longest: number }> {
  const { openSqliteStore } = await load<Sqlite>('store/sqlite.js');
  const { createRunner } = await load<Runner>('scheduler/runner.js');
  const { createCollectorState } = await load<Board>('scheduler/board.js');
  const { withReader } = await load<Collectors>('collectors/index.js');
  const { createEvents, events: kind } = await load<Events>('collectors/events/events.js');
  const server = createServer((request, response) =>
    response.end(answer(new URL(request.url ?? '', 'http://x').searchParams)),
  );
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-bench-'));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
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
    // How long anything else in the process, a scrape for example, has to wait at worst.
    let [longest, last, ticking] = [0, performance.now(), true];
    const tick = () => {
      const now = performance.now();
      longest = Math.max(longest, now - last);
      last = now;
      if (ticking) setImmediate(tick);
    };
    setImmediate(tick);
    const start = performance.now();
    await run('tail', new AbortController().signal);
    const ms = performance.now() - start;
    ticking = false;
    return { ms, longest };
  } finally {
    await store.close();
    await dispatcher.destroy();
    server.closeAllConnections();
    await new Promise(resolve => server.close(resolve));
    rmSync(folder, { recursive: true });
  }
}

/** A backlog of the event log, from bytes to committed counters. */
export async function run(): Promise<string> {
  const runs: Awaited<ReturnType<typeof inMemory>>[] = [];
  const whole: Awaited<ReturnType<typeof throughEverything>>[] = [];
  for (let repeat = 0; repeat < REPEATS; repeat += 1) {
    runs.push(await inMemory());
    whole.push(await throughEverything());
  }
  const kept = runs.slice(2);
  const asked = kept[0]?.pages ?? 0;
  const perSecond = (ms: number, events: number) => `${Math.round(events / ms)},000`;
  const median = (times: number[]) => timingsOf(times).median;
  const parse = median(kept.map(({ parseMs }) => parseMs));
  const ingest = median(kept.map(({ ms }) => ms));
  const ratio = median(kept.map(({ ms, parseMs }) => parseMs / ms));
  const all = median(whole.slice(2).map(({ ms }) => ms));
  const rows = [
    ['JSON.parse alone, the same pages', parse.toFixed(0), perSecond(parse, asked * ROWS)],
    ['parse, check and fold, in memory', ingest.toFixed(0), perSecond(ingest, asked * ROWS)],
    ['the same over loopback HTTP, committed to SQLite', all.toFixed(0), perSecond(all, asked * ROWS)],
  ];
  const size = Math.round((pages[0]?.last.length ?? 0) / ROWS);
  const longest = Math.max(...whole.slice(2).map(({ longest }) => longest)).toFixed(0);
  return [
    `A backlog of ${EVENTS} events of ${size} bytes, ${PAGES} pages, destinations labelled by host. Ranges that turned out too long, and pages that reach into two ranges, are read twice: ${asked} pages in all. Median of ${kept.length} runs.`,
    table(['what', 'ms', 'rows a second'], rows),
    targets([
      [
        'parse, check and fold ÷ JSON.parse alone, events per second',
        `${Math.round(ratio * 100)} %`,
        '≥ 40 %',
        ratio >= 0.4,
      ],
    ]),
    `While it was committed, nothing else in the process waited longer than ${longest} ms, the server of the pages included, which is the same process.`,
  ].join('\n\n');
}
