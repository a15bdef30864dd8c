import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { measureAgent } from './loop-agent.ts';
import { load, table, targets, timingsOf } from './measure.ts';

type FlowControl = typeof import('../src/collectors/flow-control.ts');
type Api = typeof import('../src/upstream/api.ts');
type Send = typeof import('../src/upstream/send.ts');
type Dispatchers = typeof import('../src/upstream/dispatcher.ts');

const REPEATS = 5;
/** Milliseconds that nothing may hold the main thread. */
const LONGEST = 50;
const MIB = 1024 * 1024;

const keys = (count: number) =>
  JSON.stringify(
    Array.from({ length: count }, (_, index) => ({ flowControlKey: `key-${index}`, waitListSize: index, rateMax: 10 })),
  );
const names = Array.from({ length: 3_300_000 }, (_, index) => `"${index}":0`);
const page = (rows: number, bytes: number) =>
  JSON.stringify({
    messages: Array.from({ length: rows }, (_, index) => ({ dlqId: `${index}-0`, body: 'x'.repeat(bytes) })),
  });

/** How long anything else in the process has to wait, and what it takes, while `work` goes on. */
async function watched(work: () => Promise<unknown>) {
  globalThis.gc?.();
  const before = process.memoryUsage.rss();
  // Of this thread alone: other work of the machine is no block of ours.
  const used = () => {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1000;
  };
  let [last, isOver, peak, largest] = [used(), false, before, 0];
  const waits: number[] = [];
  const tick = () => {
    const now = used();
    waits.push(now - last);
    largest = Math.max(largest, now - last);
    last = now;
    peak = Math.max(peak, process.memoryUsage.rss());
    if (!isOver) setImmediate(tick);
  };
  setImmediate(tick);
  const start = performance.now();
  await work().catch(() => undefined);
  const ms = performance.now() - start;
  await new Promise(resolve => setImmediate(resolve));
  isOver = true;
  return { ms, longest: largest, p99: timingsOf(waits).p99, added: (peak - before) / MIB };
}

/** Large answers, from the socket to the facts that are folded: what else the process can do meanwhile. */
export async function run(): Promise<string> {
  const { createReader, createPageSizes } = await load<Api>('upstream/api.js');
  const { createSend } = await load<Send>('upstream/send.js');
  const { createDispatcher } = await load<Dispatchers>('upstream/dispatcher.js');
  const flow = await load<FlowControl>('collectors/flow-control.js');
  let body = Buffer.alloc(0);
  const server = createServer((_request, response) => response.end(body)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const dispatcher = createDispatcher({ connectTimeout: 1000 });
  const send = createSend({
    addresses: { base: url, regional: url },
    dispatcher,
    timeout: 60_000,
    now: Date.now,
    onBytes: () => undefined,
  });
  const api = createReader({
    call: send,
    sizes: createPageSizes(),
    priority: 'flow_control',
    flowControlKeyPath: '',
    onRejected: () => undefined,
    onMissing: () => undefined,
  });
  const signal = new AbortController().signal;
  const flowControl = flow.createFlowControl(flow.flowControl.options.parse({}));
  let memory = flowControl.restore(new Map());
  const poll = async () => {
    const context = { api, round: 'list', now: Date.now(), memory, walk: undefined, signal };
    ({ memory } = (await flowControl.observe(context)).fold(memory));
  };
  const readPage = () => api.dlqPages({}, signal).next();
  const cases: readonly [what: string, text: string, work: () => Promise<unknown>][] = [
    ['a list of 100,000 keys', keys(100_000), poll],
    ['a list of 1,000,000 keys', keys(1_000_000), poll],
    ['a page of 28 rows of 1 MB', page(28, MIB), readPage],
    ['a page of 31 MB of names (refused)', `{"messages":[],${names}}`, readPage],
    ['a page of 31 MB of names in a row (refused)', `{"messages":[{${names}}]}`, readPage],
  ];
  const rows: string[][] = [];
  const longest: number[] = [];
  const added: number[] = [];
  try {
    for (const [what, text, work] of cases) {
      body = Buffer.from(text);
      const atOnce = await watched(async () => JSON.parse(body.toString()));
      const runs: Awaited<ReturnType<typeof watched>>[] = [];
      for (let repeat = 0; repeat < REPEATS; repeat += 1) runs.push(await watched(work));
      const median = (pick: (run: (typeof runs)[0]) => number) => timingsOf(runs.map(pick)).median;
      longest.push(median(run => run.longest));
      added.push(Math.max(...runs.map(run => run.added)));
      rows.push([
        what,
        atOnce.longest.toFixed(0),
        median(run => run.ms).toFixed(0),
        median(run => run.longest).toFixed(0),
        median(run => run.p99).toFixed(1),
        Math.max(...runs.map(run => run.added)).toFixed(0),
      ]);
    }
  } finally {
    server.closeAllConnections();
    server.close();
    await dispatcher.destroy();
  }
  const { quiet, busy } = await measureAgent();
  const agentRows = Object.entries({ 'empty answers': quiet, 'long answers': busy }).map(
    ([what, { longest, turn, answer, scrape, rss }]) => [
      what,
      longest.toFixed(0),
      turn.p99.toFixed(1),
      answer.median.toFixed(1),
      answer.p99.toFixed(1),
      scrape.median.toFixed(0),
      scrape.p99.toFixed(0),
      (rss / MIB).toFixed(0),
    ],
  );
  const [block, memoryAdded] = [Math.max(...longest), Math.max(...added)];
  return [
    `Answers over loopback, read, mapped and folded in one process that serves them, too: its main thread is held by either. Blocks are processor time of that thread between two turns. Median of ${REPEATS}; memory is the most of them, garbage included.`,
    table(['what', 'JSON.parse alone, ms', 'ms', 'longest block ms', 'p99 ms', 'MiB added at most'], rows),
    targets([
      ['longest block, ms', block.toFixed(0), `≤ ${LONGEST}`, block <= LONGEST],
      ['memory that an answer adds, MiB', memoryAdded.toFixed(0), '≤ 150', memoryAdded <= 150],
    ]),
    `The agent itself with three accounts, scraped once a second: one lists 100,000 keys every 5 s, another has pages of 100 bodies of 1 MB, the third lists 1,000,000 keys. Processor time of the main thread is what it takes on a machine of its own; the scrape as its client sees it waits for all else that the machine does, too.`,
    table(
      ['accounts', 'longest turn ms', 'p99 ms', 'scrape ms', 'p99', 'as seen ms', 'p99', 'RSS MiB at most'],
      agentRows,
    ),
    targets([
      ['longest turn of the main thread, ms', busy.longest.toFixed(0), '≤ 50', busy.longest <= 50],
      ['turn of the main thread, p99, ms', busy.turn.p99.toFixed(1), '≤ 15', busy.turn.p99 <= 15],
      ['scrape, p99, ms of the main thread', busy.answer.p99.toFixed(1), '≤ 50', busy.answer.p99 <= 50],
    ]),
  ].join('\n\n');
}
