import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { startCli } from '../support/cli.ts';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { startHttpService } from '../support/http-service.ts';
import { parseExposition } from '../support/parse-exposition.ts';

const PATIENCE = 240_000;
const MIB = 1024 * 1024;

it(
  'a queue without an end takes neither memory nor disk for good, and no count is wrong afterwards',
  async () => {
    const [start, ids] = [Date.now() - 100_000, new Set(Array.from({ length: 5 }, (_, index) => index))];
    const row = (number: number, time = start) => `{"dlqId":"${time + (number % 1000)}-${number}","createdAt":${time}}`;
    let isEndless = false;
    let listed = 1_000_000;
    const page = () => {
      const rows = Array.from({ length: 1000 }, (_, index) => row(listed + index, Date.now()));
      listed += 1000;
      return `{"messages":[${rows}],"cursor":"${listed}"}`;
    };
    const service = await startHttpService((request, response) => {
      const isWorkflows = request.url?.includes('source=') === true;
      if (isEndless && !isWorkflows) response.end(page());
      // What began while it had no end does not come to one.
      else if (request.url?.includes('cursor=')) response.writeHead(400).end();
      else response.end(`{"messages":[${isWorkflows ? '' : [...ids].map(id => row(id))}]}`);
    });
    afterThisTest(() => service.close());
    const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-'));
    afterThisTest(async () => rmSync(folder, { recursive: true }));
    const file = join(folder, 'config.yaml');
    const budget = { requestsPerSecond: 10_000, burst: 10_000, concurrency: 4, requestsPerDay: 10_000_000 };
    const config = {
      server: { listen: '127.0.0.1:0' },
      store: { path: join(folder, 'data', 'store.db') },
      accounts: [{ name: 'a', baseUrl: service.url, token: { env: 'DELIVERY_TOKEN' }, budget }],
      collect: {
        flowControl: { enabled: false },
        events: { enabled: false },
        dlq: { every: '1s', rescanEvery: '2s' },
      },
      staleness: { withdrawAtMost: '1h', withdrawAfter: 10_000 },
    };
    writeFileSync(file, JSON.stringify(config));
    const agent = startCli(['serve', '--config', file], { DELIVERY_TOKEN: 't' });
    afterThisTest(async () => {
      agent.kill('SIGKILL');
      await agent.ended;
    });
    const [, url = ''] = await agent.says(/"url":"([^"]+)"/);
    async function values(...names: string[]) {
      const families = parseExposition(await (await fetch(`${url}/metrics`)).text(), 'text');
      const samples = families.flatMap(family => family.samples);
      const one = (name: string) =>
        samples
          .filter(sample => sample.name === `delivery_dlq_${name}`)
          .reduce<number | undefined>((sum, { value }) => (sum ?? 0) + value, undefined);
      return names.map(one);
    }
    const memory = (name: 'VmRSS' | 'VmHWM') =>
      (Number(new RegExp(`${name}:\\s+(\\d+)`).exec(readFileSync(`/proc/${agent.pid}/status`, 'utf8'))?.[1]) * 1024) /
      MIB;
    const disk = () =>
      readdirSync(join(folder, 'data')).reduce((sum, name) => sum + statSync(join(folder, 'data', name)).size, 0) / MIB;

    await eventually(async () => expect(await values('messages', 'entered_total')).toEqual([5, 0]), PATIENCE);
    const before = memory('VmRSS');

    isEndless = true;
    // Each kind of round meets its bound, and says so in the log once.
    await agent.says(/"round":"new".*the queue goes on after 100000 entries/);
    await agent.says(/"round":"full".*the queue goes on after \d+ entries/);
    const height = { memory: memory('VmHWM') - before, disk: disk() };
    expect(await values('messages', 'entered_total', 'left_total')).toEqual([5, 0, 0]);

    isEndless = false;
    ids.delete(0);
    for (const id of [5, 6, 7]) ids.add(id);
    await eventually(
      async () => expect(await values('messages', 'entered_total', 'left_total')).toEqual([7, 3, 1]),
      PATIENCE,
    );
    // Two million ids are sixty MiB, and twice that while their table grows; pages on their way come on top.
    expect(height.memory).toBeLessThan(400);
    expect(height.disk).toBeLessThan(2);
    expect(disk()).toBeLessThan(2);
    expect(agent.stderr() + agent.stdout()).not.toContain('"msg":"bug"');
    for (const round of ['new', 'full']) {
      const warnings = (agent.stdout() + agent.stderr())
        .split('\n')
        .filter(line => line.includes(`"round":"${round}"`) && line.includes('goes on after'));
      expect(warnings).toHaveLength(1);
    }
  },
  PATIENCE + 60_000,
);
