import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { EventSeed } from '../../src/emulator/added.ts';
import { unlimited } from './agent.ts';
import { runCli } from './cli.ts';
import { emulateEmpty } from './emulate.ts';
import { newFolder } from './folder.ts';
import { type Prometheus, startPrometheus } from './prometheus.ts';
import { run } from './run.ts';

const MINUTE = 60_000;
const HOUR = 3_600_000;

type State = NonNullable<EventSeed['state']>;

/** An event of the log. Times are in milliseconds since the Unix epoch. */
interface PastEvent {
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

/**
 * Generates about `count` events of complete life cycles, evenly distributed from `start` to `end`. One host appears only in
 * the second half.
 */
function* pastEvents(count: number, start: number, end: number): Generator<PastEvent> {
  const messages = Math.floor((count / LIVES.flat().length) * LIVES.length);
  for (let message = 0; message < messages; message += 1) {
    const host = `${message > messages / 2 && message % 3 === 0 ? 'late' : `h${message % 2}`}.example.com`;
    const url = `https://${host}/x`;
    const createdAt = start + Math.floor((message * (end - start)) / messages);
    for (const [state, after, status] of LIVES[message % LIVES.length] ?? []) {
      const response = status === undefined ? {} : { responseStatus: status };
      yield { messageId: `msg_${message}`, state, time: createdAt + after, host, url, ...response };
    }
  }
}

/**
 * A time range of the log in which no agent ran, and the output of `backfill` for it. Times are in milliseconds since the
 * Unix epoch.
 */
export interface PastLog {
  readonly from: number;
  readonly to: number;
  /** Events in order of time, including some outside the range. */
  readonly events: readonly PastEvent[];
  readonly backfilled: Awaited<ReturnType<typeof runCli>>;
}

/**
 * Fills the log of an emulator with about `count` events over `span` milliseconds, and runs `backfill --from --to` on
 * them.
 */
export async function backfillPast({ count, span }: { count: number; span: number }): Promise<PastLog> {
  const emulator = await emulateEmpty({ maxEvents: 2 * count, logRetention: span + 6 * HOUR });
  const to = Math.floor((Date.now() - 2 * HOUR) / MINUTE) * MINUTE;
  const from = to - span;
  const events = [...pastEvents(count, from - MINUTE, to + MINUTE)].sort((a, b) => a.time - b.time);
  emulator.state.addEvents(events.map(({ host: _host, ...event }) => event));
  const config = join(newFolder(), 'config.yaml');
  const settings = {
    store: { path: join(newFolder(), 'x.db') },
    accounts: [{ ...unlimited('a', emulator.url), retention: { events: '30d' } }],
    collect: { events: { destination: 'host', destinationHistograms: true } },
  };
  writeFileSync(config, JSON.stringify(settings));
  const range = ['--from', new Date(from).toISOString(), '--to', new Date(to).toISOString()];
  const backfilled = await runCli(['backfill', '--config', config, ...range, '--label', 'instance=x'], {
    DELIVERY_TOKEN: emulator.token,
  });
  return { from, to, events, backfilled };
}

/** Compared families. Each function returns the labels of the series that counts an event, or undefined if none does. */
const COMPARED: Readonly<Record<string, (event: PastEvent) => Readonly<Record<string, string>> | undefined>> = {
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

/** Returns the index of the first event after `time`; events are in order of time. */
function firstAfter(events: readonly PastEvent[], time: number): number {
  let [low, high] = [0, events.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((events[middle] as PastEvent).time > time) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Returns the increases of a family's series in `(from, to]` by key; events are in order of time. */
function truthOf(events: readonly PastEvent[], family: string, from: number, to: number): Record<string, number> {
  const sums: Record<string, number> = {};
  for (let index = firstAfter(events, from); index < firstAfter(events, to); index += 1) {
    const event = events[index] as PastEvent;
    const labels = COMPARED[family]?.(event);
    if (!labels) continue;
    const key = keyOf({ ...labels, destination: event.host });
    sums[key] = (sums[key] ?? 0) + 1;
  }
  return sums;
}

/** Starts a real Prometheus with blocks created from the backfill output. */
export async function loadPrometheus({ backfilled }: PastLog): Promise<Prometheus> {
  return startPrometheus({
    scrapeConfigs: [],
    flags: ['--storage.tsdb.retention.time=10y'],
    async prepare(data) {
      const file = join(newFolder(), 'past.txt');
      writeFileSync(file, backfilled.stdout);
      const env = { PATH: process.env.PATH ?? '' };
      const made = await run('promtool', ['tsdb', 'create-blocks-from', 'openmetrics', file, data], env);
      expect(made.code, made.stderr + made.stdout).toBe(0);
    },
  });
}

/** Returns the whole-minute timestamps of a family in the output. */
function marksOf(output: string, family: string): number[] {
  const times = output.split('\n').filter(line => line.startsWith(`${family}{account="a",`));
  const marks = new Set(times.map(line => Math.round(Number(line.slice(line.lastIndexOf(' '))) * 1000)));
  return [...marks].filter(time => time % MINUTE === 0).sort((a, b) => a - b);
}

interface Series {
  readonly metric: Readonly<Record<string, string>>;
  readonly values: readonly (readonly [time: number, value: string])[];
}

const nonZero = (increases: Iterable<readonly [string, number]>) =>
  Object.fromEntries([...increases].filter(([, value]) => value !== 0));

/** Compares the increases in Prometheus, per minute and in total, with the log. Returns the number of compared increases. */
export async function checkPast(prometheus: Prometheus, { from, to, events, backfilled }: PastLog): Promise<number> {
  let compared = 0;
  for (const family of Object.keys(COMPARED)) {
    const selector = `${family}{account="a"}`;
    const marks = marksOf(backfilled.stdout, family);
    expect([marks[0], marks.at(-1), marks.length], family).toEqual([from, to, (to - from) / MINUTE + 1]);
    const range = { start: `${(from + MINUTE) / 1000}`, end: `${to / 1000}`, step: '60' };
    const query = new URLSearchParams({ query: `increase(${selector}[1m])`, ...range });
    const found = (await prometheus.get(`/api/v1/query_range?${query}`)) as { result: readonly Series[] };
    for (const at of marks.slice(1)) {
      const increases = found.result.map(({ metric, values }) => {
        const [, value = 0] = values.find(([time]) => time * 1000 === at) ?? [];
        return [keyOf(metric), Math.round(Number(value) * 1e6) / 1e6] as const;
      });
      expect(nonZero(increases), `${family} at ${new Date(at).toISOString()}`).toEqual(
        truthOf(events, family, at - MINUTE, at),
      );
      compared += increases.length;
    }
    const totals = await prometheus.query(`${selector} @ ${to / 1000}`);
    expect(nonZero(totals.map(({ metric, value }) => [keyOf(metric), value]))).toEqual(
      truthOf(events, family, from, to),
    );
  }
  return compared;
}
