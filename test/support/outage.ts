import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import type { EventSeed } from '../../src/emulator/added.ts';
import { type Agent, createAgent, unlimited } from './agent.ts';
import { runCli } from './cli.ts';
import { emulateEmpty } from './emulate.ts';
import { eventually } from './eventually.ts';
import { newFolder } from './folder.ts';
import { serve } from './http-service.ts';
import { type Prometheus, startPrometheus } from './prometheus.ts';
import { run } from './run.ts';

const FAST_CLOCK = new URL('./fast-clock.ts', import.meta.url);
const MINUTE = 60_000;
const HOUR = 3_600_000;

type State = NonNullable<EventSeed['state']>;

/** One event as it is in the log. Times: milliseconds since the Unix epoch. */
export interface OutageEvent {
  readonly messageId: string;
  readonly state: State;
  readonly time: number;
  readonly responseStatus?: number;
  readonly host: string;
  readonly url: string;
}

type Step = readonly [state: State, after: number, status?: number];

const DELIVERED: readonly Step[] = [
  ['created', 0],
  ['active', 40],
  ['error', 400, 503],
  ['retry', 401],
  ['active', 3000],
  ['delivered', 4200, 200],
];
const LIVES: readonly (readonly Step[])[] = [
  [
    ['created', 0],
    ['active', 200],
    ['delivered', 900, 200],
  ],
  DELIVERED,
  [
    ['created', 0],
    ['active', 20],
    ['error', 70, 404],
    ['failed', 71],
  ],
  [
    ['created', 0],
    ['cancel_requested', 20_000],
    ['cancelled', 20_050],
  ],
];

/** So many events of whole lives, evenly from `start` to `end`; of one host not before half of that. */
export function* outageEvents(count: number, start: number, end: number): Generator<OutageEvent> {
  const messages = Math.floor((count / LIVES.flat().length) * LIVES.length);
  for (let message = 0; message < messages; message += 1) {
    const host = `${message > messages / 2 && message % 3 === 0 ? 'late' : `h${message % 2}`}.example.com`;
    const url = `https://${host}/x`;
    const createdAt = start + Math.floor((message * (end - start)) / messages);
    for (const [state, after, status] of LIVES[message % LIVES.length] ?? []) {
      const said = status === undefined ? {} : { responseStatus: status };
      yield { messageId: `msg_${message}`, state, time: createdAt + after, host, url, ...said };
    }
  }
}

/** What /metrics showed at a time of the agent's clock. */
export interface Exposed {
  readonly at: number;
  readonly text: string;
}

/** A clock that is so many times as fast as ours, by which it is `target` now. */
function clockAt(target: number, speed: number) {
  const since = Math.round((Date.now() * speed - target) / (speed - 1));
  return { words: `${since} ${speed}`, now: () => Math.floor(since + (Date.now() - since) * speed) };
}

export interface OutageOptions {
  readonly count: number;
  /** Milliseconds without an agent, as its clock has them. */
  readonly gap: number;
  /** How long the agent runs, by its own clock, before it is killed, and after it has shown its counters again. */
  readonly before: number;
  readonly after: number;
  /** Milliseconds of the agent in one of ours. */
  readonly speed: number;
  /** Names of accounts, all of which have the same log; default: one. Each is held by a replica of its own where they share a store. */
  readonly accounts?: readonly string[];
  /** A store that they share; default: a file, and one agent. */
  readonly shared?: SharedOutageStore;
}

export interface SharedOutageStore {
  /** The section `store`, and what it takes from the environment. */
  readonly config: object;
  readonly env: Readonly<Record<string, string>>;
  /** How many notifications wait. */
  waiting(): Promise<number>;
}

const countsOf = (account: string) => `\ndelivery_events_total{account="${account}",`;

/** Looks at /metrics of all agents, as Prometheus would, until `isDone` says so of what they show together. */
async function watch(
  urls: readonly string[],
  now: () => number,
  isDone: (text: string, at: number) => boolean | Promise<boolean>,
): Promise<Exposed[]> {
  const seen: Exposed[] = [];
  return eventually(async () => {
    const at = now();
    const text = (await Promise.all(urls.map(async url => (await fetch(`${url}/metrics`)).text()))).join('');
    if (at > (seen.at(-1)?.at ?? 0)) seen.push({ at, text });
    expect(await isDone(text, at)).toBe(true);
    return seen;
  }, 240_000);
}

/** Notifications that wait, or that the store does not know to be sent. */
function waitingIn(store: string): number {
  const db = new DatabaseSync(store, { readOnly: true });
  const text = "SELECT count(*) AS n FROM rows WHERE key LIKE 'alerts/outbox/%' OR key LIKE 'alerts/grouped/%'";
  const n = Number(db.prepare(text).get()?.n);
  db.close();
  return n;
}

/**
 * An agent is killed, is gone for `gap` milliseconds while the service logs about `count` events, and comes back; then backfill
 * reads what it missed. With an alert that fires all the time.
 */
export async function runOutage({ count, gap, speed, accounts = ['a'], shared, ...runs }: OutageOptions) {
  const emulator = await emulateEmpty({ mostEvents: 2 * count, logRetention: gap + 6 * HOUR });
  const told: string[] = [];
  const hook = await serve((request, response) => {
    let body = '';
    request.on('data', chunk => {
      body += chunk;
    });
    request.on('end', () => {
      told.push(body);
      response.end();
    });
  });
  const end = Date.now() - 2 * HOUR;
  const start = end - gap - runs.before;
  const events = [...outageEvents(count, start - MINUTE, end + runs.after + 20 * MINUTE)].sort(
    (a, b) => a.time - b.time,
  );
  emulator.state.addEvents(events.map(({ host: _host, ...event }) => event));
  const env: Record<string, string> = {
    DELIVERY_TOKEN: emulator.token,
    NODE_OPTIONS: `--import=${FAST_CLOCK}`,
    ...shared?.env,
  };
  const create = () =>
    createAgent(
      {
        ...(shared && { store: shared.config }),
        accounts: accounts.map(name => ({
          ...unlimited(name, emulator.url),
          upstream: { connectTimeout: '5m', timeout: '1h' },
        })),
        collect: {
          flowControl: { enabled: false },
          dlq: { enabled: false },
          events: { every: '5s', overlap: '10s', destination: 'host', destinationHistograms: true },
        },
        alerts: {
          enabled: true,
          rules: [
            {
              name: 'Failed',
              when: { above: { metric: 'delivery_events_total', labels: { state: 'failed' }, value: 0 } },
            },
          ],
          notifiers: [
            {
              name: 'hook',
              webhook: {
                url: hook.url,
                groupBy: ['account', 'alertname', 'destination'],
                groupWait: '0s',
                repeatEvery: '30d',
              },
            },
          ],
        },
      },
      env,
    );
  const agents = shared ? accounts.map(create) : [create()];
  const [agent] = agents as [Agent, ...Agent[]];
  const startAll = () => Promise.all(agents.map(each => each.start()));
  const areAllShown = (text: string) => accounts.every(account => text.includes(countsOf(account)));
  const first = clockAt(start, speed);
  env.FAST_CLOCK = first.words;
  /** So many were sent, and are known to be, before the agent was killed. */
  let settled = 0;
  const before = await watch(await startAll(), first.now, async (text, at) => {
    const sent = told.length;
    if ((await (shared?.waiting() ?? waitingIn(agent.store))) === 0) settled = sent;
    const held = await Promise.all(agents.map(async each => (await each.get('/metrics')).includes('delivery_up{')));
    return at > start + runs.before && settled >= accounts.length && areAllShown(text) && held.every(Boolean);
  });
  await Promise.all(agents.map(each => each.end('SIGKILL')));
  const killedAt = first.now();
  await sleep(50);
  const second = clockAt(Math.max(end, killedAt + gap), speed);
  env.FAST_CLOCK = second.words;
  let shownAt: number | undefined;
  const after = await watch(await startAll(), second.now, (text, at) => {
    if (areAllShown(text)) shownAt ??= at;
    return shownAt !== undefined && at > shownAt + runs.after;
  });
  const backfilled = await runCli(['backfill', '--config', agent.configFile, '--gap', '--label', 'instance=x'], env);
  const groups = told.map(body => String(JSON.parse(body).groupKey));
  const toldAgain = groups.slice(settled).filter(group => groups.slice(0, settled).includes(group));
  return { accounts, events, before, after, killedAt, toldAgain, backfilled, agent };
}

export type Outage = Awaited<ReturnType<typeof runOutage>>;

/** Families whose increases are judged, and the series that an event belongs to. */
const JUDGED: Readonly<Record<string, (event: OutageEvent) => Readonly<Record<string, string>> | undefined>> = {
  delivery_events_total: ({ state }) => ({ state }),
  delivery_messages_finished_total: ({ state }) =>
    ['delivered', 'failed', 'cancelled'].includes(state) ? { outcome: state } : undefined,
  delivery_attempts_total: ({ state, responseStatus }) =>
    responseStatus === undefined
      ? undefined
      : {
          result: state === 'delivered' ? 'success' : 'error',
          status_class: `${Math.floor(responseStatus / 100)}xx`,
        },
};

const keyOf = (labels: Readonly<Record<string, string>>) =>
  Object.entries(labels)
    .filter(([name]) => !['__name__', 'account', 'instance', 'job'].includes(name))
    .map(([name, value]) => `${name}=${value}`)
    .sort()
    .join(' ');

/** The index of the first of these events, in the order of time, that is later. */
function firstAfter(events: readonly OutageEvent[], time: number): number {
  let [low, high] = [0, events.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((events[middle] as OutageEvent).time > time) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Increases of a family's series by key, in `(from, to]`, of events in the order of time. */
function truthOf(events: readonly OutageEvent[], family: string, from: number, to: number): Record<string, number> {
  const sums: Record<string, number> = {};
  for (let index = firstAfter(events, from); index < firstAfter(events, to); index += 1) {
    const event = events[index] as OutageEvent;
    const labels = JUDGED[family]?.(event);
    if (!labels) continue;
    const key = keyOf({ ...labels, destination: event.host });
    sums[key] = (sums[key] ?? 0) + 1;
  }
  return sums;
}

/** Scrapes as OpenMetrics with timestamps, as Prometheus would have them with this instance. */
function scraped(exposed: readonly Exposed[]): string {
  const families = new Map<string, Map<string, string>>();
  for (const { at, text } of exposed) {
    for (const line of text.split('\n')) {
      const [, name = '', labels = '', value = ''] = /^(\w+)\{(.*)\} (\S+)$/.exec(line) ?? [];
      if (!(name in JUDGED)) continue;
      const lines = families.get(name) ?? new Map<string, string>();
      families.set(name, lines);
      // While an account goes over, two replicas may show it.
      lines.set(`${name}{job="delivery-watch",instance="x",${labels}} ${at / 1000}`, value);
    }
  }
  const text = [...families].map(
    ([name, lines]) =>
      `# TYPE ${name.replace(/_total$/, '')} counter\n${[...lines].map(([line, value]) => `${line.slice(0, line.lastIndexOf(' '))} ${value}${line.slice(line.lastIndexOf(' '))}\n`).join('')}`,
  );
  return `${text.join('')}# EOF\n`;
}

/** A real Prometheus that has scraped the agent before and after, and has loaded what backfill wrote. */
export async function loadPrometheus({ before, after, backfilled }: Outage): Promise<Prometheus> {
  const files = { before: scraped(before), after: scraped(after), backfilled: backfilled.stdout };
  return startPrometheus({
    scrapeConfigs: [],
    flags: ['--storage.tsdb.retention.time=10y'],
    async prepare(data) {
      const folder = newFolder();
      for (const [name, text] of Object.entries(files)) {
        const file = join(folder, name);
        writeFileSync(file, text);
        const made = await run('promtool', ['tsdb', 'create-blocks-from', 'openmetrics', file, data], {
          PATH: process.env.PATH ?? '',
        });
        expect(made.code, made.stderr + made.stdout).toBe(0);
      }
    },
  });
}

/** Marks that the output has of a family. */
function marksOf(output: string, family: string, account: string): number[] {
  const times = output.split('\n').filter(line => line.startsWith(`${family}{account="${account}",`));
  const marks = new Set(times.map(line => Math.round(Number(line.slice(line.lastIndexOf(' '))) * 1000)));
  return [...marks].filter(time => time % MINUTE === 0).sort((a, b) => a - b);
}

interface Series {
  readonly metric: Readonly<Record<string, string>>;
  readonly values: readonly (readonly [time: number, value: string])[];
}

/** Since when events are counted. */
function floorOf(exposed: readonly Exposed[], account: string): number {
  const line = `\ndelivery_event_log_since_timestamp_seconds{account="${account}"} `;
  const [, seconds = ''] = exposed.at(-1)?.text.split(line) ?? [];
  return Math.round(Number.parseFloat(seconds) * 1000);
}

const nonZero = (increases: Iterable<readonly [string, number]>) =>
  Object.fromEntries([...increases].filter(([, value]) => value !== 0));

/** Asks Prometheus for every minute of the gap, and for the whole. Gives how many increases were compared. */
export async function judgeOutage(prometheus: Prometheus, outage: Outage): Promise<number> {
  let compared = 0;
  for (const account of outage.accounts) compared += await judgeAccount(prometheus, outage, account);
  return compared;
}

async function judgeAccount(prometheus: Prometheus, outage: Outage, account: string): Promise<number> {
  const { events, before, after, backfilled } = outage;
  const range = async (query: string, start: number, end: number) => {
    const asked = new URLSearchParams({ query, start: `${start / 1000}`, end: `${end / 1000}`, step: '60' });
    return ((await prometheus.get(`/api/v1/query_range?${asked}`)) as { result: readonly Series[] }).result;
  };
  let compared = 0;
  for (const family of Object.keys(JUDGED)) {
    const selector = `${family}{account="${account}"}`;
    const marks = marksOf(backfilled.stdout, family, account);
    const [first = 0, last = 0] = [marks[0], marks.at(-1)];
    expect(marks.length, family).toBe((last - first) / MINUTE + 1);
    const series = await range(`increase(${selector}[1m])`, first + MINUTE, last);
    for (const at of marks.slice(1)) {
      const found = series.map(
        ({ metric, values }) =>
          [
            keyOf(metric),
            Math.round(Number(values.find(([time]) => time * 1000 === at)?.[1] ?? 0) * 1e6) / 1e6,
          ] as const,
      );
      expect(nonZero(found), `${family} at ${new Date(at).toISOString()}`).toEqual(
        truthOf(events, family, at - MINUTE, at),
      );
      compared += found.length;
    }
    const [start, end] = [before[0]?.at ?? 0, after.at(-1)?.at ?? 0];
    const over = `[${Math.ceil((end - start) / 1000) + 60}s]`;
    const resets = await prometheus.query(`resets(${selector}${over} @ ${end / 1000})`);
    expect(resets.length, family).toBeGreaterThan(0);
    expect(resets.filter(({ value }) => value !== 0)).toEqual([]);
    // Over the seams nothing is lost or counted twice: all that was ever counted is there at each mark, and goes on.
    const total = async (at: number) =>
      nonZero(
        (await prometheus.query(`${selector} @ ${at / 1000}`)).map(({ metric, value }) => [keyOf(metric), value]),
      );
    for (const at of [first, last])
      expect(await total(at)).toEqual(truthOf(events, family, floorOf(before, account), at));
    const least = truthOf(events, family, floorOf(before, account), end - 2 * MINUTE);
    const most = truthOf(events, family, floorOf(before, account), end);
    for (const [key, value] of Object.entries(await total(end))) {
      expect(value, `${family} ${key}`).toBeGreaterThanOrEqual(least[key] ?? 0);
      expect(value, `${family} ${key}`).toBeLessThanOrEqual(most[key] ?? 0);
    }
  }
  return compared;
}
