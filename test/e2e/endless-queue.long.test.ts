import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { startAgent } from '../support/agent.ts';
import { eventually } from '../support/eventually.ts';
import { serve } from '../support/http-service.ts';

const MIB = 1024 * 1024;

it('an endless queue uses bounded memory and disk, and all counts are correct afterwards', async () => {
  const [start, ids] = [Date.now() - 100_000, new Set(Array.from({ length: 5 }, (_, index) => index))];
  const row = (number: number, time = start) => `{"dlqId":"${time + (number % 1000)}-${number}","createdAt":${time}}`;
  let isEndless = false;
  let listed = 1_000_000;
  const page = () => {
    const rows = Array.from({ length: 1000 }, (_, index) => row(listed + index, Date.now()));
    listed += 1000;
    return `{"messages":[${rows}],"cursor":"${listed}"}`;
  };
  const service = await serve((request, response) => {
    const isWorkflows = request.url?.includes('source=') === true;
    if (isEndless && !isWorkflows) response.end(page());
    // Aborts a walk that started while the queue was endless.
    else if (request.url?.includes('cursor=')) response.writeHead(400).end();
    else response.end(`{"messages":[${isWorkflows ? '' : [...ids].map(id => row(id))}]}`);
  });
  const budget = { requestsPerSecond: 10_000, burst: 10_000, concurrency: 4, requestsPerDay: 10_000_000 };
  const config = {
    accounts: [{ name: 'a', baseUrl: service.url, token: { env: 'DELIVERY_TOKEN' }, budget }],
    collect: {
      flowControl: { enabled: false },
      events: { enabled: false },
      dlq: { every: '1s', rescanEvery: '2s' },
    },
    staleness: { withdrawAtMost: '1h', withdrawAfter: 10_000 },
  };
  const { process: agent, folder, scrape } = await startAgent(config);
  async function values(...names: string[]) {
    const { sum } = await scrape();
    return names.map(name => sum(`delivery_dlq_${name}`));
  }
  const memory = (name: 'VmRSS' | 'VmHWM') =>
    (Number(new RegExp(`${name}:\\s+(\\d+)`).exec(readFileSync(`/proc/${agent.pid}/status`, 'utf8'))?.[1]) * 1024) /
    MIB;
  const disk = () => readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0) / MIB;

  await eventually(async () => expect(await values('messages', 'entered_total')).toEqual([5, 0]));
  const before = memory('VmRSS');

  isEndless = true;
  // Each kind of round reaches its limit and logs that once.
  await agent.says(/"round":"new".*the queue has more than 100000 entries/);
  await agent.says(/"round":"full".*the queue has more than \d+ entries/);
  const height = { memory: memory('VmHWM') - before, disk: disk() };
  expect(await values('messages', 'entered_total', 'left_total')).toEqual([5, 0, 0]);

  isEndless = false;
  ids.delete(0);
  for (const id of [5, 6, 7]) ids.add(id);
  await eventually(async () => expect(await values('messages', 'entered_total', 'left_total')).toEqual([7, 3, 1]));
  // Two million ids take 60 MiB, and twice that while their table grows. Pages in flight add to that.
  expect(height.memory).toBeLessThan(400);
  expect(height.disk).toBeLessThan(2);
  expect(disk()).toBeLessThan(2);
  expect(agent.stderr() + agent.stdout()).not.toContain('"msg":"bug"');
  for (const round of ['new', 'full']) {
    const warnings = (agent.stdout() + agent.stderr())
      .split('\n')
      .filter(line => line.includes(`"round":"${round}"`) && line.includes('the queue has more than'));
    expect(warnings).toHaveLength(1);
  }
});
