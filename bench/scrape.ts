import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort, requireProgram } from '../test/support/prometheus.ts';
import { table, timeGet, timingsOf } from './measure.ts';
import { ACCOUNTS, SERIES } from './series.ts';

interface Row {
  readonly name: string;
  readonly url: string;
  readonly gzip: boolean;
  /** Request that precedes each measured request and is not timed. */
  readonly before?: string;
  /** Number of requests per turn. */
  readonly each: number;
  /** Idle time of the connection before each request (ms), as between Prometheus scrapes. */
  readonly idle?: number;
}

/** Reports progress on stderr, because the table is only printed at the end. */
const say = (what: string) => process.stderr.write(`scrape: ${what}\n`);

/** Number of turns. Each turn measures every row, so that temporary load affects all rows equally. */
const TURNS = 4;
/** Time limit per row and turn, excluding idle time (ms). No request starts after it. */
const TURN_LIMIT = 2000;
/** Number of requests per turn and idle time before each (ms), for rows that scrape like Prometheus. */
const ONCE_A_SECOND = { each: 3, idle: 1000 };

async function startServer(role: string, children: ChildProcess[]): Promise<string> {
  const child = fork(new URL('./scrape-server.ts', import.meta.url), [role]);
  children.push(child);
  say(`waiting for the server \`${role}\` to create its series`);
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`the server ${role} ended with ${code} before it listened`);
  });
  const [port] = (await Promise.race([once(child, 'message'), ended])) as [number];
  // Stopping the server at the end of the benchmark is not an error.
  ended.catch(() => undefined);
  return `http://127.0.0.1:${port}`;
}

/** Starts Debian's Pushgateway and pushes the exposition of `from` to it. Returns undefined if it is not installed. */
async function startPushgateway(from: string, children: ChildProcess[]): Promise<string | undefined> {
  if (!requireProgram('prometheus-pushgateway')) return undefined;
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  children.push(spawn('prometheus-pushgateway', [`--web.listen-address=127.0.0.1:${port}`], { stdio: 'ignore' }));
  say('waiting for the pushgateway to listen and to accept all series');
  for (let tries = 0; ; tries++) {
    const answer = await fetch(`${url}/-/ready`).catch(() => undefined);
    if (answer?.ok) break;
    if (tries === 100) throw new Error('the pushgateway was not ready after 10 s');
    await sleep(100);
  }
  const body = await (await fetch(from)).text();
  const pushed = await fetch(`${url}/metrics/job/bench`, { method: 'PUT', body, signal: AbortSignal.timeout(60_000) });
  if (!pushed.ok) throw new Error(`the pushgateway refused the series: ${await pushed.text()}`);
  return url;
}

async function measure(rows: readonly Row[]) {
  const results = new Map(rows.map(row => [row.name, { times: [] as number[], bytes: 0 }]));
  for (let turn = 0; turn < TURNS; turn++) {
    say(`turn ${turn + 1} of ${TURNS}, ${rows.length} rows`);
    for (const { name, url, gzip, before, each, idle = 0 } of rows) {
      const headers = { 'Accept-Encoding': gzip ? 'gzip' : 'identity' };
      const deadline = performance.now() + TURN_LIMIT + idle * each;
      for (let request = 0; request < each && performance.now() < deadline; request++) {
        if (before !== undefined) await timeGet(before, {});
        if (idle > 0) await sleep(idle);
        const { ms, bytes } = await timeGet(url, headers);
        const result = results.get(name);
        // The first turn warms up the server, the connection and this process.
        if (turn > 0) result?.times.push(ms);
        if (result) result.bytes = bytes;
      }
    }
  }
  return results;
}

/** Compares how fast this exporter and other servers respond to GET /metrics with 100,000 series, over loopback. */
export async function run(): Promise<string> {
  const children: ChildProcess[] = [];
  try {
    const [ours, ready, promClient] = await Promise.all(
      ['ours', 'ready', 'prom-client'].map(role => startServer(role, children)),
    );
    const pushgateway = await startPushgateway(`${ours}/metrics`, children);
    const pushed = `${pushgateway}/metrics`;
    const rows: readonly Row[] = [
      { name: 'delivery-watch, plain', url: `${ours}/metrics`, gzip: false, each: 60 },
      { name: 'delivery-watch, gzip', url: `${ours}/metrics`, gzip: true, each: 200 },
      {
        name: 'delivery-watch, gzip, 1 of 100 accounts just changed',
        url: `${ours}/metrics`,
        gzip: true,
        before: `${ours}/change`,
        each: 100,
      },
      { name: 'ready-made buffer, plain', url: `${ready}/`, gzip: false, each: 60 },
      { name: 'ready-made buffer, gzip', url: `${ready}/`, gzip: true, each: 200 },
      ...[false, true].flatMap(gzip => {
        const how = `${gzip ? 'gzip' : 'plain'}, once a second`;
        const each = { gzip, ...ONCE_A_SECOND };
        return [
          {
            name: `delivery-watch, ${how}, 1 account changed`,
            url: `${ours}/metrics`,
            before: `${ours}/change`,
            ...each,
          },
          { name: `ready-made buffer, ${how}`, url: `${ready}/`, ...each },
        ];
      }),
      { name: 'prom-client metrics(), plain', url: `${promClient}/`, gzip: false, each: 20 },
      ...(pushgateway === undefined
        ? []
        : [
            { name: 'pushgateway, plain', url: pushed, gzip: false, each: 20 },
            { name: 'pushgateway, gzip', url: pushed, gzip: true, each: 20 },
          ]),
    ];
    return report(rows, await measure(rows));
  } finally {
    for (const child of children) child.kill('SIGTERM');
  }
}

function report(rows: readonly Row[], results: Awaited<ReturnType<typeof measure>>): string {
  const timings = new Map(rows.map(({ name }) => [name, timingsOf(results.get(name)?.times ?? [])]));
  const median = (name: string) => timings.get(name)?.median ?? Number.NaN;
  const times = table(
    ['what', 'median ms', 'p99 ms', 'requests', 'bytes'],
    rows.map(({ name }) => {
      const { median, p99, count } = timings.get(name) ?? timingsOf([]);
      return [name, median.toFixed(2), p99.toFixed(2), String(count), String(results.get(name)?.bytes)];
    }),
  );
  const targets: readonly (readonly [string, string, number])[] = [
    ['delivery-watch, plain', 'pushgateway, plain', 10],
    ['delivery-watch, gzip', 'pushgateway, gzip', 10],
    ['delivery-watch, gzip, 1 of 100 accounts just changed', 'pushgateway, gzip', 10],
    ['delivery-watch, plain', 'prom-client metrics(), plain', 12],
  ];
  const ratios = table(
    ['ratio of medians', 'is', 'target', 'met'],
    targets.map(([below, above, target]) => {
      const ratio = median(above) / median(below);
      const met = Number.isNaN(ratio) ? 'not measured' : ratio >= target ? 'yes' : 'NO';
      return [`${above} ÷ ${below}`, `${ratio.toFixed(0)}×`, `≥ ${target}×`, met];
    }),
  );
  const series = `${ACCOUNTS * SERIES} series of ${ACCOUNTS} accounts`;
  return `GET /metrics with ${series} over loopback with one persistent connection, after a warm-up, each server in a separate process. One series of delivery-watch changes before each scrape, as process metrics do. The time ends with the last byte. The pushgateway adds its labels \`instance\` and \`job\` to every line.\n\n${times}\n\n${ratios}`;
}
