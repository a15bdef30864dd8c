import { once } from 'node:events';
import { createWriteStream, type WriteStream } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type Agent, startAgent } from '../../../src/agent/agent.ts';
import { Config } from '../../../src/config/schema.ts';
import { type Emulator, startEmulator } from '../../../src/emulator/server.ts';
import { accounts, addScenarios, faultsAt, settings } from './accounts.ts';
import { type CatchUpClock, createCatchUpClock } from './catch-up-clock.ts';

export interface Recording {
  /** The past as OpenMetrics, one file per Prometheus block. */
  readonly files: readonly string[];
  /** Time of the last scrape (ms since the Unix epoch). */
  readonly until: number;
}

/** Labels that Prometheus adds to scraped series. */
const TARGET_LABELS = { job: 'delivery-watch', instance: 'delivery-watch:10922' } as const;

const SCRAPE_MS = 30_000;
const BLOCK_MS = 2 * 3_600_000;

/** Replaces the process's start time, which is the start of the replay, with the start of the simulated past. */
const startedAt = (text: string, since: number) =>
  text.replace(/^process_start_time_seconds .*$/m, `process_start_time_seconds ${since / 1000}`);

/** Converts samples to the form in which Prometheus would store them. */
function toOpenMetrics(text: string, at: number): string {
  const target = Object.entries(TARGET_LABELS)
    .map(([name, value]) => `${name}="${value}"`)
    .join();
  const time = ` ${(at / 1000).toFixed(3)}\n`;
  const lines = [`up{${target}} 1${time}`];
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    const [, name, labels] = /^([^{ ]+)(\{)?/.exec(line) ?? [];
    if (name === undefined) continue;
    const rest = line.slice(name.length + (labels ? 1 : 0));
    lines.push(`${name}{${target}${labels ? `,${rest}` : `}${rest}`}${time}`);
  }
  return lines.join('');
}

/** Creates a recorder that writes each scrape to the file of its Prometheus block. */
function createRecorder(folder: string) {
  const files: string[] = [];
  let block: number | undefined;
  let file: WriteStream | undefined;
  async function end(): Promise<void> {
    file?.end('# EOF\n');
    if (file) await once(file, 'close');
  }
  return {
    files,
    end,
    async write(text: string, at: number) {
      if (block !== Math.floor(at / BLOCK_MS)) {
        await end();
        block = Math.floor(at / BLOCK_MS);
        files.push(join(folder, `${block}.om`));
        file = createWriteStream(files.at(-1) as string);
      }
      if (!file?.write(toOpenMetrics(text, at)) && file) await once(file, 'drain');
    },
  };
}

/** Returns synthetic lease metrics, because the recorded agent has no shared store. */
function leaseSeries(at: number): string {
  return `${[
    'delivery_watch_leader{schema="delivery_watch"} 1',
    `delivery_watch_lease_renewals_total{outcome="ok"} ${Math.floor(at / 5000)}`,
    'delivery_watch_lease_renewals_total{outcome="failed"} 0',
  ].join('\n')}\n`;
}

function configOf(emulators: ReadonlyMap<string, Emulator>, receiver: string): Config {
  const budget = { requestsPerSecond: 50, burst: 50, concurrency: 8, requestsPerDay: 200_000 };
  // The emulator's retention.
  const retention = { dlq: '3d' };
  const limits = { dlqSize: 2000, requestsPerDay: 500_000, globalParallelism: 40 };
  return Config.parse({
    server: { listen: '127.0.0.1:0' },
    log: { level: 'error', format: 'text' },
    store: { kind: 'memory' },
    accounts: [...emulators].map(([name, { url, token }]) => ({
      name,
      baseUrl: url,
      token,
      budget,
      retention,
      limits,
    })),
    ...settings,
    alerts: { ...settings.alerts, notifiers: [{ name: 'chat', webhook: { url: receiver } }] },
  });
}

async function startEmulators(clock: CatchUpClock): Promise<Map<string, Emulator>> {
  const emulators = new Map<string, Emulator>();
  for (const [index, [name, scenario]] of Object.entries(accounts).entries()) {
    emulators.set(
      name,
      await startEmulator({ scenario, seed: index + 3, clock: clock.ofServers, dialect: { flowControlFields: 'all' } }),
    );
  }
  return emulators;
}

/** Simulates a past of `pastMs` as fast as possible, and records its scrapes. */
export async function recordWorld(pastMs: number, folder: string, log: (text: string) => void): Promise<Recording> {
  addScenarios(pastMs);
  const clock = createCatchUpClock(pastMs);
  const since = clock.now();
  const emulators = await startEmulators(clock);
  const receiver = createServer((request, response) => {
    request.resume();
    response.end();
  }).listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  const config = configOf(emulators, `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`);
  const agent: Agent = await startAgent(
    { file: 'demo', config, hash: 'demo', warnings: [] },
    { env: {}, clock, random: Math.random },
  );
  const recorder = createRecorder(folder);
  let [reported, until] = [0, since];
  await clock.catchUp(SCRAPE_MS, async () => {
    const at = clock.now();
    for (const { faults } of emulators.values()) faults.replace(faultsAt(Date.now() - at));
    const text = startedAt(await (await fetch(`${agent.url}/metrics`)).text(), since) + leaseSeries(at);
    if (at - since - reported > 3_600_000) {
      reported = at - since;
      log(`${Math.round(reported / 3_600_000)} h simulated; ${text.split('\n').length} lines per scrape`);
    }
    await recorder.write(text, at);
    until = at;
  });
  await recorder.end();
  await agent.close();
  receiver.close();
  receiver.closeAllConnections();
  await Promise.all([...emulators.values()].map(emulator => emulator.close()));
  return { files: recorder.files, until };
}
