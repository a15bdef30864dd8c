import type { ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/kit/clock.ts';
import { createBudget } from '../../src/upstream/budget.ts';
import { allKeys, allRows, createTestClient } from '../support/client.ts';
import { json, serve } from '../support/http-service.ts';

const signal = () => new AbortController().signal;

/** Creates a clock that advances only when something sleeps on it. */
function createSleepClock() {
  let time = 0;
  const sleeps: number[] = [];
  return {
    sleeps,
    now: () => time,
    monotonic: () => time,
    async sleep(ms: number) {
      sleeps.push(ms);
      time += ms;
    },
  };
}

const hang = () => undefined;
const drip = (response: ServerResponse) => {
  response.writeHead(200).write('{"messages":[');
  const timer = setInterval(() => response.write(' '), 10);
  response.on('close', () => clearInterval(timer));
};
const cutOff = (response: ServerResponse) => void response.writeHead(200).write('{"mess');

/** Returns the duration (ms) and the error of a read that rejects. */
async function timed(read: Promise<unknown>) {
  const start = performance.now();
  const error = await read.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  return { error, took: performance.now() - start };
}

describe('time limits on requests and retries', () => {
  it.each([
    ['never responds', hang],
    ['sends its body too slowly', drip],
    ['stops in the middle of its body', cutOff],
  ])('a request ends at the timeout and is not retried if the service %s', async (_what, respond) => {
    const service = await serve((_request, response) => respond(response));
    const { reader, counts } = createTestClient(service.url, { timeout: 300 });
    const { error, took } = await timed(allKeys(reader, signal()));
    expect(error).toMatchObject({ reason: 'timeout' });
    expect(took).toBeLessThan(1500);
    expect(service.requests).toHaveLength(1);
    expect(counts.requests).toEqual({ 'flow_control timeout': 1 });
  });

  it.each([
    ['never responds', hang],
    ['sends its body too slowly', drip],
  ])('a walk fails within the timeout of a single page if the service %s on page 7', async (_what, respond) => {
    let page = 0;
    const service = await serve((_request, response) => {
      page += 1;
      if (page >= 7) respond(response);
      else json(response, { cursor: `c${page}`, messages: [{ dlqId: `${page}-0` }] });
    });
    const { reader } = createTestClient(service.url, { timeout: 300 });
    const pages = reader.dlqPages({}, signal());
    for (let read = 1; read < 7; read += 1) await pages.next();
    const { error, took } = await timed(pages.next());
    expect(error).toMatchObject({ reason: 'timeout' });
    expect(took).toBeLessThan(1500);
    expect(page).toBe(7);
  });

  it('requests to other endpoints succeed even if the service hangs on one endpoint', async () => {
    const service = await serve((request, response) => {
      if (!request.url?.startsWith('/v2/dlq')) json(response, []);
    });
    const { reader } = createTestClient(service.url, { timeout: 300 });
    const [hung, keys] = await Promise.all([timed(allRows(reader.dlqPages({}, signal()))), allKeys(reader, signal())]);
    expect(hung.error).toMatchObject({ reason: 'timeout' });
    expect(keys.rows).toEqual([]);
  });

  it('a retry is limited to the remaining time of the request', async () => {
    let calls = 0;
    const service = await serve((_request, response) => {
      calls += 1;
      // The first attempt takes a third of the time. With its own timeout, the second would end after 4 s.
      if (calls === 1) setTimeout(() => json(response, {}, 503), 1000);
    });
    const { reader, counts } = createTestClient(service.url, { timeout: 3000 });
    const { error, took } = await timed(allKeys(reader, signal()));
    expect(error).toMatchObject({ reason: 'timeout' });
    expect(took).toBeGreaterThan(2900);
    expect(took).toBeLessThan(3900);
    expect(counts.requests).toEqual({ 'flow_control server': 1, 'flow_control timeout': 1 });
  });

  it.each([
    [10_000, [125, 250, 500]],
    [960, [125, 250]],
    [410, [125]],
  ])(
    'a retry is sent only if it starts within the first nine tenths of a timeout of %i ms',
    async (timeout, sleeps) => {
      const clock = createSleepClock();
      const service = await serve((_request, response) => json(response, {}, 503));
      const { reader } = createTestClient(service.url, { timeout, clock });
      await expect(allKeys(reader, signal())).rejects.toMatchObject({ reason: 'server', status: 503 });
      expect(clock.sleeps).toEqual(sleeps);
      expect(service.requests).toHaveLength(sleeps.length + 1);
    },
  );

  it('a request fails as rate limited immediately if Retry-After is longer than the timeout, and the budget stays paused', async () => {
    const service = await serve((_request, response) => response.writeHead(429, { 'retry-after': '20' }).end());
    const limits = { requestsPerSecond: 1000, burst: 1000, concurrency: 10, requestsPerDay: 1_000_000 };
    const clock = createSleepClock();
    const budget = createBudget(limits, systemClock, () => undefined);
    const { reader } = createTestClient(service.url, { timeout: 10_000, clock, budget });
    await expect(allKeys(reader, signal())).rejects.toMatchObject({ reason: 'rate_limited', retryAfter: 20_000 });
    expect(clock.sleeps).toEqual([]);
    // The next request waits for the end of the pause.
    const stopping = new AbortController();
    const next = allKeys(reader, stopping.signal);
    stopping.abort(new Error('stopped'));
    await expect(next).rejects.toThrow('stopped');
    expect(service.requests).toHaveLength(1);
  });

  it('a request ends with the last error if it times out while a retry waits for the budget', async () => {
    const limits = { requestsPerSecond: 1000, burst: 1000, concurrency: 1, requestsPerDay: 1_000_000 };
    const budget = createBudget(limits, systemClock, () => undefined);
    const failing = await serve((_request, response) => json(response, { error: 'down' }, 503));
    const { reader } = createTestClient(failing.url, { timeout: 400, budget, clock: systemClock });
    const hung = await serve(hang);
    const other = createTestClient(hung.url, { timeout: 60_000, budget });
    const stopping = new AbortController();
    const reading = timed(allKeys(reader, signal()));
    // This request takes the only slot while the first one sleeps before its retry.
    const blocking = timed(allKeys(other.reader, stopping.signal));
    const { error, took } = await reading;
    expect(error).toMatchObject({ reason: 'server', serviceError: 'down' });
    expect(took).toBeLessThan(1500);
    expect(failing.requests).toHaveLength(1);
    stopping.abort(new Error('stopped'));
    await blocking;
  });
});
