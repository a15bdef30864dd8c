import { existsSync } from 'node:fs';
import { type Browser, chromium } from 'playwright-core';
import { openAccounts } from '../src/agent/base.ts';
import { Config } from '../src/config/schema.ts';
import { startEmulator } from '../src/emulator/server.ts';
import { Recorder } from '../src/history/recorder.ts';
import { sampleOf } from '../src/history/sampling.ts';
import { systemClock } from '../src/kit/clock.ts';
import { type Closing, createClosing } from '../src/kit/closing.ts';
import type { Log } from '../src/kit/log.ts';
import { OverviewQuery } from '../src/status/api/overview.ts';
import { createOverviewRows, overview } from '../src/status/overview.ts';
import { recorded } from '../src/status/recording.ts';
import type { Served, Views } from '../src/status/served.ts';
import { startHttpServer } from '../src/status/server.ts';
import { createMemoryStore } from '../src/store/memory.ts';
import { table } from './measure.ts';

const ACCOUNTS = 1000;
const KEYS = 30;
/** Number of recorded minutes per account. */
const RECORDED = 75;
const HISTORIES = 50;
const ROUNDS = 8;
const MINUTE = 60_000;

const ignore = () => undefined;
const QUIET: Log = { debug: ignore, info: ignore, warn: ignore, error: ignore, child: () => QUIET };

/** Returns the processor time of this thread (ms). */
function used(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** Measures the processor time of `work` on this thread, and of its longest event loop turn (ms). */
async function cost<T>(work: () => Promise<T>): Promise<{ ms: number; longest: number; value: T }> {
  const start = used();
  let [last, longest, isOver] = [start, 0, false];
  const tick = () => {
    const now = used();
    longest = Math.max(longest, now - last);
    last = now;
    if (!isOver) setImmediate(tick);
  };
  setImmediate(tick);
  const value = await work();
  isOver = true;
  const end = used();
  return { ms: end - start, longest: Math.max(longest, end - last), value };
}

/** Returns a thousand accounts that share the data of one: `KEYS` keys and `RECORDED` minutes of recorded traffic. */
async function openThousandAccounts(closing: Closing) {
  let time = 0;
  const from = Date.UTC(2026, 0, 1);
  const sleep = async (ms: number) => {
    time += ms;
  };
  const clock = { now: () => from + time, monotonic: () => time, sleep };
  const emulator = await startEmulator({ clock, scenario: 'neglected', dlqEntries: 300 });
  closing.add('emulator', () => emulator.close());
  for (let key = 0; key < KEYS; key += 1) emulator.state.setWaitlist(`tenant-${key}`, 10 * key);
  const budget = { requestsPerSecond: 1000, burst: 1000, requestsPerDay: 10_000_000 };
  const config = Config.parse({
    log: { level: 'error' },
    store: { kind: 'memory' },
    accounts: [{ name: 'production', baseUrl: emulator.url, token: emulator.token, budget }],
  });
  const loaded = { file: 'bench', hash: 'bench', warnings: [], config };
  const accounts = await openAccounts(loaded, { env: {}, clock, random: () => 0 }, closing);
  const [account, settings] = [accounts[0], config.accounts[0]];
  if (!account || !settings) throw new Error('no account');
  // Use enough histories that none is served from the cache of unpacked histories.
  const opening = Array.from({ length: HISTORIES }, (_, index) =>
    Recorder.open({ account: `recorded-${index}`, store: createMemoryStore(), clock, log: QUIET }),
  );
  const histories = await Promise.all(opening);
  for (let minute = 0; minute < RECORDED; minute += 1) {
    for (const { run } of account.rounds) await run(new AbortController().signal);
    const values = sampleOf(recorded, account.sources);
    for (const history of histories) await history.sample(values);
    time += MINUTE - (time % MINUTE);
  }
  const viewed = Array.from({ length: ACCOUNTS }, (_, index) => ({
    settings,
    autoCancel: undefined,
    problemStates: () => [],
    account: {
      ...account,
      name: `production-${index}`,
      history: histories[index % HISTORIES] as (typeof histories)[number],
    },
  }));
  return { viewed, now: clock.now };
}

const median = (numbers: readonly number[]) => numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? Number.NaN;

const CHROMIUM = '/usr/bin/chromium';
const OPENED = 5;

/** Returns the time from the request until a browser with an empty cache has laid out all rows (ms). */
async function timeToOpen(browser: Browser, url: string): Promise<number> {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(url);
  const ms = await page.evaluate<number>(`(async () => {
    document.body.getBoundingClientRect();
    const [{ domContentLoadedEventEnd, requestStart }] = performance.getEntriesByType('navigation');
    return domContentLoadedEventEnd - requestStart;
  })()`);
  await context.close();
  return ms;
}

/** Alternately opens an empty page and the overview. Returns the median time of each. */
async function inChromium(overview: Views['overview'], closing: Closing) {
  if (!existsSync(CHROMIUM)) return undefined;
  const none = () => Promise.reject(new Error('not implemented'));
  const views: Views = {
    externalUrl: null,
    accounts: [],
    overview,
    report: none,
    account: () => undefined,
    status: () => [],
    history: none,
    autoCancel: none,
    lookups: { dlq: none, events: none, message: none },
    explain: async () => [],
    journal: none,
    alerts: () => [],
  };
  const served: Served = {
    version: '1.0.0',
    accounts: views.accounts,
    clock: systemClock,
    exposition: none,
    views: () => views,
    command: none,
    reload: none,
    reloadErrors: () => [],
  };
  const server = await startHttpServer({ host: '127.0.0.1', port: 0 }, served, QUIET);
  closing.add('port', () => server.close());
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-gpu'] });
  closing.add('browser', () => browser.close());
  const found: { full: number[]; empty: number[] } = { full: [], empty: [] };
  // Warm up: the first loads are slow while code is compiled.
  for (const path of ['/', '/accounts/nobody']) await timeToOpen(browser, server.url + path);
  for (let time = 0; time < OPENED; time += 1) {
    found.full.push(await timeToOpen(browser, `${server.url}/`));
    found.empty.push(await timeToOpen(browser, `${server.url}/accounts/nobody`));
  }
  return { full: median(found.full), empty: median(found.empty) };
}

/** Measures the overview of a thousand accounts. */
export async function run(): Promise<string> {
  const closing = createClosing();
  try {
    const { viewed, now } = await openThousandAccounts(closing);
    const query = OverviewQuery.parse({ per: ACCOUNTS });
    const rows = createOverviewRows(viewed, now, () => undefined);
    const render = async (query: OverviewQuery) =>
      overview({ rows: await rows(), alerts: [], agentProblems: [], version: '1.0.0', now: now() }, query);
    const found: { ms: number[]; json: number[]; turns: number[] } = { ms: [], json: [], turns: [] };
    for (let round = 0; round < ROUNDS; round += 1) {
      const rendered = await cost(() => render(query));
      const json = await cost(async () => JSON.stringify(rendered.value));
      // Ignore the first rounds, which are slow while code is compiled.
      if (round < 2) continue;
      found.ms.push(rendered.ms);
      found.json.push(json.ms);
      found.turns.push(rendered.longest);
    }
    const json = median(found.json);
    const opened = await inChromium(render, closing);
    const inBrowser = opened
      ? `In Chromium, the first hundred rows are shown after ${opened.full.toFixed(0)} ms (wall clock): ${(opened.full / opened.empty).toFixed(1)} times as long as for an empty page (${opened.empty.toFixed(0)} ms).`
      : 'There is no Chromium to open it in.';
    const line = (what: string, ms: number, wanted: string) => [what, ms.toFixed(1), (ms / json).toFixed(1), wanted];
    const lines = [
      line('every row rendered', median(found.ms), '≤ 600 ms'),
      line('JSON.stringify of the response', json, '–'),
      line('longest turn of the event loop', Math.max(...found.turns), '≤ 15 ms'),
    ];
    return `The overview of ${ACCOUNTS} accounts with traffic, ${KEYS} flow-control keys and ${RECORDED} minutes of history each, all on one page, in this process: processor time.\n\n${table(['what', 'ms', 'of JSON.stringify', 'wanted'], lines)}\n\n${inBrowser}`;
  } finally {
    await closing.close();
  }
}
