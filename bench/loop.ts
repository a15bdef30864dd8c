import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import * as flow from '../src/collectors/flow-control/flow-control.ts';
import { systemClock } from '../src/kit/clock.ts';
import { createPageSizes, createReader } from '../src/upstream/api.ts';
import { createDispatcher } from '../src/upstream/dispatcher.ts';
import { eventsPath } from '../src/upstream/paginate.ts';
import { createSend } from '../src/upstream/send.ts';
import { NOWHERE } from './client.ts';
import { measureAgent } from './loop-agent.ts';
import { table, targets, timingsOf } from './measure.ts';

const REPEATS = 5;
/** Maximum time for which a response may block the main thread (ms): in ordinary use, and a large one with ordinary rows. */
const LONGEST = { ordinary: 50, large: 150 };
/** Maximum memory that a response may add (MiB). */
const MAX_ADDED = 200;
const MIB = 1024 * 1024;

const keys = (count: number) =>
  JSON.stringify(
    Array.from({ length: count }, (_, index) => ({ flowControlKey: `key-${index}`, waitListSize: index, rateMax: 10 })),
  );
const names = (count: number, first = 0) => Array.from({ length: count }, (_, index) => `"n${first + index}":0`);
const rowsOf = (rows: number, length: number) =>
  Array.from({ length: rows }, (_, index) => `{${names(length, index * length)}}`);
const events = JSON.stringify({
  events: Array.from({ length: 1000 }, (_, index) => ({
    messageId: `msg_${index}`,
    state: 'DELIVERED',
    time: index,
    url: 'https://api.example.com/jobs',
    body: 'x'.repeat(800),
  })),
});
const page = (rows: number, bytes: number) =>
  JSON.stringify({
    messages: Array.from({ length: rows }, (_, index) => ({ dlqId: `${index}-0`, body: 'x'.repeat(bytes) })),
  });

/** Measures how long `work` delays other work in the process, and how much memory it adds. */
async function watched(work: () => Promise<unknown>) {
  globalThis.gc?.();
  const before = process.memoryUsage.rss();
  // Use the processor time of this thread, so that other load on the machine is not counted as a block.
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

/** Measures the processing of large responses, from the socket to the collector's facts, and how long it blocks other work. */
export async function run(): Promise<string> {
  let body = Buffer.alloc(0);
  const server = createServer((_request, response) => response.end(body)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const dispatcher = createDispatcher({ connectTimeout: 1000 });
  const send = createSend({ addresses: { base: url, regional: url }, dispatcher, timeout: 60_000, clock: systemClock });
  const api = createReader({
    call: send,
    sizes: createPageSizes(),
    priority: 'flow_control',
    flowControlKeyPath: '',
    clock: systemClock,
    events: eventsPath('auto'),
    meter: { rowsRejected: NOWHERE, listsMissing: NOWHERE },
    secrets: () => [],
    acceptList: () => true,
  });
  const signal = new AbortController().signal;
  const flowControl = flow.createFlowControl(flow.flowControl.options.parse({}));
  let memory = flowControl.restore(new Map());
  const poll = async () => {
    const context = { api, round: 'list', now: Date.now(), memory, walk: undefined, signal };
    ({ memory } = (await flowControl.observe(context)).fold(memory));
  };
  const readPage = () => api.dlqPages({}, signal).next();
  const readEvents = () => api.eventPages({}, signal).next();
  const cases: readonly [
    what: string,
    kind: keyof typeof LONGEST | 'hostile',
    text: string,
    work: () => Promise<unknown>,
  ][] = [
    ['a list of 10,000 keys', 'ordinary', keys(10_000), poll],
    ['a page of 1,000 events', 'ordinary', events, readEvents],
    ['a list of 100,000 keys', 'large', keys(100_000), poll],
    ['a list of 240,000 keys', 'large', keys(240_000), poll],
    ['a page of 15 rows of 1 MB', 'large', page(15, MIB), readPage],
    ['a page of 10,000 rows of 1,600 B', 'large', page(10_000, 1575), readPage],
    ['a page of 15 MB of names (refused)', 'hostile', `{"messages":[],${names(1_600_000)}}`, readPage],
    ['a page of a row of 900,000 names', 'hostile', `{"messages":[{${names(900_000)}}]}`, readPage],
    ['a page of 100 rows of 9,000 names', 'hostile', `{"messages":[${rowsOf(100, 9000)}]}`, readPage],
    ['a page of 8,000 rows of 120 names', 'hostile', `{"messages":[${rowsOf(8000, 120)}]}`, readPage],
    ['a page of 1,000 rows of 100 names', 'hostile', `{"messages":[${rowsOf(1000, 100)}]}`, readPage],
  ];
  const rows: string[][] = [];
  const longest = { ordinary: 0, large: 0, hostile: 0 };
  let mostAdded = 0;
  try {
    for (const [what, kind, text, work] of cases) {
      body = Buffer.from(text);
      const atOnce = await watched(async () => JSON.parse(body.toString()));
      const runs: Awaited<ReturnType<typeof watched>>[] = [];
      for (let repeat = 0; repeat < REPEATS; repeat += 1) runs.push(await watched(work));
      const median = (pick: (run: (typeof runs)[0]) => number) => timingsOf(runs.map(pick)).median;
      const [block, added] = [median(run => run.longest), Math.max(...runs.map(run => run.added))];
      longest[kind] = Math.max(longest[kind], block);
      mostAdded = Math.max(mostAdded, added);
      rows.push([
        what,
        atOnce.longest.toFixed(0),
        median(run => run.ms).toFixed(0),
        block.toFixed(0),
        median(run => run.p99).toFixed(1),
        added.toFixed(0),
      ]);
    }
  } finally {
    server.closeAllConnections();
    server.close();
    await dispatcher.destroy();
  }
  const { quiet, busy } = await measureAgent();
  const agentRows = Object.entries({ 'empty responses': quiet, 'long responses': busy }).map(
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
  return [
    `Responses over loopback, read, mapped and folded in the process that also serves them, so both occupy its main thread. Blocks are processor time of that thread between two turns. Median of ${REPEATS}; memory is the maximum, including garbage.`,
    table(['what', 'JSON.parse alone, ms', 'ms', 'longest block ms', 'p99 ms', 'MiB added at most'], rows),
    targets([
      [
        'longest block in normal use, ms',
        longest.ordinary.toFixed(0),
        `≤ ${LONGEST.ordinary}`,
        longest.ordinary <= LONGEST.ordinary,
      ],
      [
        'longest block of a large response, ms',
        longest.large.toFixed(0),
        `≤ ${LONGEST.large}`,
        longest.large <= LONGEST.large,
      ],
      ['memory that a response adds, MiB', mostAdded.toFixed(0), `≤ ${MAX_ADDED}`, mostAdded <= MAX_ADDED],
    ]),
    `The agent itself with three accounts, scraped once a second: one lists 100,000 keys every 5 s, another has pages of 100 bodies of 1 MB, the third lists 160,000 keys. Processor time of the main thread is its duration on a machine without other load. The scrape time at the client also includes delays by other processes.`,
    table(
      ['accounts', 'longest turn ms', 'p99 ms', 'scrape ms', 'p99', 'at client ms', 'p99', 'RSS MiB at most'],
      agentRows,
    ),
    targets([
      [
        'longest turn of the main thread, ms',
        busy.longest.toFixed(0),
        `≤ ${LONGEST.large}`,
        busy.longest <= LONGEST.large,
      ],
    ]),
  ].join('\n\n');
}
