import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { expect, it, onTestFinished } from 'vitest';
import { startAgent } from '../../src/agent/agent.ts';
import { loadConfig } from '../../src/config/load.ts';
import { systemClock } from '../../src/kit/clock.ts';
import { eventually } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';
import { json, serve } from '../support/http-service.ts';
import { decodeMetrics, type ReceivedPoint } from '../support/otlp-metrics.ts';

/** Starts a receiver that responds with a status, or not at all. */
async function startReceiver(status: number | 'hang') {
  const points: ReceivedPoint[] = [];
  const receiver = await serve(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    points.push(...decodeMetrics(gunzipSync(Buffer.concat(chunks))));
    if (status !== 'hang') response.writeHead(status).end();
  });
  return { receiver, points, timesOf: () => new Set(points.map(({ time }) => time)) };
}

async function start(push: object) {
  const service = await serve((_, response) => json(response, { error: 'not now' }, 500));
  const file = join(newFolder(), 'config.yaml');
  const write = (push: object, exclude: string[] = []) =>
    writeFileSync(
      file,
      JSON.stringify({
        server: { listen: '127.0.0.1:0' },
        log: { level: 'silent' },
        store: { kind: 'memory' },
        accounts: [{ name: 'a', baseUrl: service.url, token: 'of-no-use' }],
        collect: { families: { exclude } },
        push: { metrics: push },
      }),
    );
  write(push);
  const env = {};
  const agent = await startAgent(loadConfig(file, env), { env, clock: systemClock, random: () => 0 });
  let isClosed = false;
  async function close() {
    if (!isClosed) await agent.close();
    isClosed = true;
  }
  onTestFinished(close);
  return { agent, close, write };
}

it('after a reload, queued points are pushed to the new receiver', async () => {
  const [old, other] = [await startReceiver(503), await startReceiver(200)];
  const { agent, write } = await start({ enabled: true, every: '1s', endpoint: old.receiver.url });
  await eventually(() => expect(old.timesOf().size).toBeGreaterThan(0));
  const [first] = old.timesOf();
  write({ enabled: true, every: '1s', endpoint: other.receiver.url, headers: { 'x-key': 'k' } });
  expect(await agent.reload()).toEqual({ changed: ['push changed'] });
  await eventually(() => expect([...other.timesOf()]).toContain(first));
  expect(other.receiver.headers[0]).toMatchObject({ 'x-key': 'k', 'content-encoding': 'gzip' });
  expect(other.points.find(({ name }) => name === 'delivery_up')).toMatchObject({ labels: { account: 'a' }, value: 0 });
  // The counters of push requests are not reset.
  const requests = () =>
    other.points.findLast(
      ({ name, labels }) => name === 'delivery_watch_push_requests_total' && labels.outcome === 'failed',
    );
  await eventually(() => expect(requests()?.value).toBeGreaterThan(0));

  write({ enabled: false });
  await agent.reload();
  const text = await (await fetch(`${agent.url}/metrics`)).text();
  expect(text).not.toContain('delivery_watch_push_');
});

it('a family excluded by a reload is no longer pushed, and its series are marked as ended only once', async () => {
  const { receiver, points, timesOf } = await startReceiver(200);
  const push = { enabled: true, every: '1s', endpoint: receiver.url };
  const { agent, write } = await start(push);
  const valuesOf = (family: string) => points.filter(({ name }) => name === family).map(({ value }) => value);
  await eventually(() => expect(valuesOf('delivery_watch_api_budget_remaining')).not.toEqual([]));
  write(push, ['delivery_watch_api_budget_*']);
  await agent.reload();
  await eventually(() => expect(valuesOf('delivery_watch_api_budget_remaining')).toContain(undefined));
  const before = timesOf().size;
  await eventually(() => expect(timesOf().size).toBeGreaterThan(before + 1));
  const values = valuesOf('delivery_watch_api_budget_remaining');
  expect(values.indexOf(undefined)).toBe(values.length - 1);
  expect(points.findLast(({ name }) => name === 'delivery_up')).toMatchObject({ labels: { account: 'a' }, value: 0 });
});

it('a stopping agent pushes one last time and does not wait for an unresponsive receiver', async () => {
  const good = await startReceiver(200);
  const { close } = await start({ enabled: true, every: '1h', endpoint: good.receiver.url });
  await eventually(() => expect(good.timesOf().size).toBe(1));
  await close();
  expect(good.timesOf().size).toBe(2);

  const hanging = await startReceiver('hang');
  const other = await start({ enabled: true, every: '1s', endpoint: hanging.receiver.url });
  await eventually(() => expect(hanging.points.length).toBeGreaterThan(0));
  // Rejects if the agent does not stop properly.
  await other.close();
});
