import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import type { Bounds } from '../../src/http/bounds.ts';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';
import { json, serve } from '../support/http-service.ts';

const MB = 1024 * 1024;

interface AgentProcess {
  readonly url: string;
  readonly port: number;
  log(): string;
  /** Peak memory since `resetPeak` (bytes). */
  peak(): number;
  resetPeak(): void;
  sockets(): number;
}

function killAfterThisTest(child: ChildProcess): void {
  const ended = once(child, 'exit');
  afterThisTest(async () => {
    child.kill('SIGKILL');
    await ended;
  });
}

/** Starts a real agent as a process. Its /metrics response is about 5 MB in size. */
async function startLargeAgent(bounds: Partial<Bounds>): Promise<AgentProcess> {
  const keys = Array.from({ length: 8300 }, (_, index) => ({
    flowControlKey: `tenant-${index}-of-the-service`,
    waitListSize: index,
    parallelismMax: 10,
    parallelismCount: 5,
    rateMax: 100,
    rateCount: 7,
    ratePeriod: 60,
  }));
  const service = await serve((_request, response) => json(response, keys));
  const folder = newFolder();
  const file = join(folder, 'config.yaml');
  writeFileSync(
    file,
    JSON.stringify({
      server: { listen: '127.0.0.1:0' },
      store: { kind: 'memory' },
      accounts: [{ name: 'a', baseUrl: service.url, token: { env: 'DELIVERY_TOKEN' } }],
      collect: {
        flowControl: { every: '1h', maxSeries: 100_000 },
        dlq: { enabled: false },
        events: { enabled: false },
      },
    }),
  );
  const child = spawn(
    process.execPath,
    [fileURLToPath(new URL('agent-process.ts', import.meta.url)), file, JSON.stringify(bounds)],
    {
      env: { PATH: process.env.PATH ?? '', DELIVERY_TOKEN: 'x' },
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  );
  killAfterThisTest(child);
  let log = '';
  child.stderr.setEncoding('utf8').on('data', chunk => {
    log += chunk;
  });
  const url = await eventually(() => {
    const [, found] = /"url":"([^"]+)"/.exec(log) ?? [];
    if (found === undefined) throw new Error(`the agent does not listen: ${log}`);
    return found;
  });
  await eventually(async () => expect((await (await fetch(`${url}/metrics`)).text()).length).toBeGreaterThan(4.5 * MB));
  const proc = `/proc/${child.pid}`;
  return {
    url,
    port: Number(new URL(url).port),
    log: () => log,
    peak: () => Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`${proc}/status`, 'utf8'))?.[1]) * 1024,
    resetPeak: () => writeFileSync(`${proc}/clear_refs`, '5'),
    sockets: () =>
      readdirSync(`${proc}/fd`).filter(fd => {
        try {
          return readlinkSync(`${proc}/fd/${fd}`).startsWith('socket:');
        } catch {
          return false;
        }
      }).length,
  };
}

function open(port: number): Socket {
  const socket = connect(port, '127.0.0.1').on('error', () => undefined);
  afterThisTest(async () => void socket.destroy());
  return socket;
}

/** Requests /metrics and never reads the response. If `patient`, waits until its first bytes arrive. */
async function askAndNeverRead({ port }: AgentProcess, patient: boolean): Promise<void> {
  const socket = open(port);
  socket.write('GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n');
  if (patient) await Promise.race([once(socket, 'readable'), once(socket, 'close')]);
}

/** Sends an endless header byte by byte. */
function drip({ port }: AgentProcess): void {
  const socket = open(port);
  socket.write('GET /metrics HTTP/1.1\r\nHost: x\r\nX-Long: ');
  const timer = setInterval(() => socket.write('a'), 100);
  socket.on('close', () => clearInterval(timer));
  afterThisTest(async () => clearInterval(timer));
}

const boundsIn = (log: string) =>
  log
    .split('\n')
    .flatMap(line => /"bound":"(\w+)"/.exec(line)?.[1] ?? [])
    .sort();

describe.skipIf(process.platform !== 'linux')('clients that use too many resources', () => {
  it('300 clients that read nothing or send headers slowly use little memory, delay no other client, and are disconnected', async () => {
    const agent = await startLargeAgent({ responseWithin: 8000, headersWithin: 4000 });
    const scrape = async () => {
      const response = await fetch(`${agent.url}/metrics`, { headers: { 'accept-encoding': 'identity' } });
      return [response.status, (await response.text()).length > 4.5 * MB];
    };
    // Baseline of a process that responds to normal scrapes.
    agent.resetPeak();
    for (let times = 0; times < 30; times += 1) await scrape();
    const usual = { peak: agent.peak(), sockets: agent.sockets() };
    agent.resetPeak();

    for (let count = 0; count < 160; count += 1) void askAndNeverRead(agent, false);
    for (let count = 0; count < 100; count += 1) drip(agent);
    // Each of these gets a different body, because the agent's own metrics change with every response.
    for (let count = 0; count < 40; count += 1) {
      await askAndNeverRead(agent, true);
      if (count % 10 === 0) expect(await scrape()).toEqual([200, true]);
    }
    await eventually(() => expect(agent.sockets()).toBeLessThanOrEqual(usual.sockets + 1));
    expect(await scrape()).toEqual([200, true]);
    const grown = (agent.peak() - usual.peak) / MB;
    process.stderr.write(`300 greedy clients: ${grown.toFixed(0)} MB more\n`);
    expect(grown).toBeLessThan(50);
    expect(boundsIn(agent.log())).toEqual(['answers']);
  });

  it('the agent keeps at most maxConnections connections and logs the limit once', async () => {
    const agent = await startLargeAgent({ maxConnections: 5 });
    const sockets = await Promise.all(
      Array.from({ length: 20 }, async () => {
        const socket = open(agent.port);
        socket.write('GET /metrics HTTP/1.1\r\n');
        await once(socket, 'connect');
        return socket;
      }),
    );
    await eventually(() => expect(boundsIn(agent.log())).toEqual(['connections']));
    await eventually(() => expect(sockets.filter(({ readyState }) => readyState === 'open').length).toBeLessThan(6));
    for (const socket of sockets) socket.destroy();
    await eventually(async () => expect((await fetch(`${agent.url}/-/healthy`)).status).toBe(200));
  });
});
