import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { clockDifference, createServiceClock, smallestDifference } from '../../src/upstream/service-clock.ts';
import { allKeys, createTestClient } from '../support/client.ts';
import { json, serve } from '../support/http-service.ts';
import { createManualClock } from '../support/manual-clock.ts';

const SECOND = 1000;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const NOON = Date.UTC(2027, 0, 1, 12);
const header = (time: number) => new Date(time).toUTCString();

it.each([
  ['equal clocks', header(NOON), NOON, NOON + 50, 0],
  ['a second that has just begun', header(NOON), NOON + 999, NOON + 999, 0],
  ['a slow response, whose Date may be from any time in between', header(NOON), NOON - 20_000, NOON + 1000, 0],
  ['an agent that is ahead', header(NOON), NOON + 61_999, NOON + 62_100, -61_000],
  ['an agent that is behind', header(NOON), NOON - 62_100, NOON - 62_000, 62_000],
  ['no Date', undefined, NOON, NOON, undefined],
  ['two Dates', [header(NOON), header(NOON)], NOON, NOON, undefined],
  ['a word', 'yesterday', NOON, NOON, undefined],
  ['a number', '1', NOON, NOON, undefined],
  ['a Date without a time zone', 'Fri, 01 Jan 2027 12:00:00', NOON, NOON, undefined],
  ['a day of one digit', 'Fri, 1 Jan 2027 12:00:00 GMT', NOON, NOON, 0],
])('the Date of a response bounds the difference of the clocks: %s', (_, date, before, after, expected) => {
  const bounds = clockDifference(date, before, after);
  expect(bounds && smallestDifference(bounds)).toBe(expected);
});

/** Creates an agent's clock, which may jump, and a service whose clock is `ahead` of the agent's first time (ms). */
function createScene(ahead = 0) {
  const manual = createManualClock(NOON);
  const scene = { ahead, jumped: 0 };
  const clock = { now: () => manual.now() + scene.jumped, monotonic: manual.monotonic };
  const serviceClock = createServiceClock(clock);
  const serviceNow = () => manual.now() + scene.ahead;
  async function respond(date?: unknown, { latency = 0, isDoubtful = false } = {}): Promise<void> {
    const onHeaders = serviceClock.startRequest();
    await manual.advance(latency);
    onHeaders({ date: date ?? header(serviceNow()), isDoubtful });
  }
  return {
    scene,
    serviceClock,
    serviceNow,
    advance: manual.advance,
    respond,
    /** Responds several times with the service's time, 15.1 s apart. */
    async poll(times: number): Promise<void> {
      for (let time = 0; time < times; time += 1) {
        await manual.advance(15_100);
        await respond();
      }
    },
    /** Returns the error of the service's time as the agent estimates it (ms). */
    error: () => serviceClock.at(clock.now()) - serviceNow(),
  };
}

describe('the service clock', () => {
  it.each([90_000, -90_000, 600_000, -600_000, 3 * HOUR, -3 * HOUR])(
    'the service clock uses a difference of %d ms after a response',
    async ahead => {
      const { serviceClock, poll, error } = createScene(ahead);
      expect(serviceClock.skew()).toBeUndefined();
      await poll(1);
      expect(Math.abs(error())).toBeLessThan(SECOND);
      await poll(20);
      expect(Math.abs(error())).toBeLessThan(150);
      expect(Math.abs((serviceClock.skew() ?? 0) - ahead)).toBeLessThan(150);
    },
  );

  it('the service clock is accurate to within a second plus the longest latency, regardless of the clock difference', async () => {
    const skews = fc.integer({ min: -3 * HOUR, max: 3 * HOUR });
    const exchanges = fc.array(
      fc.record({ wait: fc.nat(20_000), latency: fc.nat(5000), share: fc.double({ min: 0, max: 1, noNaN: true }) }),
      { minLength: 2 },
    );
    await fc.assert(
      fc.asyncProperty(skews, exchanges, async (ahead, responses) => {
        const { advance, respond, serviceNow, error } = createScene(ahead);
        for (const { wait, latency, share } of responses) {
          await advance(wait);
          await respond(header(serviceNow() + share * latency), { latency });
        }
        const longest = Math.max(...responses.map(({ latency }) => latency));
        expect(Math.abs(error())).toBeLessThanOrEqual(SECOND + longest);
      }),
      { numRuns: 100 },
    );
  });

  it('the service clock equals the clock of the agent if every Date is consistent with it', async () => {
    const { serviceClock, poll, error } = createScene();
    await poll(100);
    expect([serviceClock.skew(), error()]).toEqual([0, 0]);
  });

  it.each([600_000, -600_000])('the service clock ignores a step of the agent’s clock by %d ms', async step => {
    const { scene, serviceClock, poll, error } = createScene();
    await poll(3);
    scene.jumped = step;
    expect(Math.abs(error())).toBeLessThan(SECOND);
    await poll(3);
    expect(Math.abs((serviceClock.skew() ?? 0) + step)).toBeLessThan(SECOND);
    scene.jumped = 0;
    await poll(3);
    expect([serviceClock.skew(), error()]).toEqual([0, 0]);
  });

  it.each([600_000, -600_000])('the service clock follows a step of the clock of the service by %d ms', async step => {
    const { scene, poll, error } = createScene(90_000);
    await poll(3);
    scene.ahead += step;
    await poll(2);
    expect(Math.abs(error())).toBeLessThan(SECOND);
    scene.ahead = 0;
    await poll(2);
    expect(error()).toBe(0);
  });

  it.each([
    ['year 9999', 'Fri, 31 Dec 9999 23:59:59 GMT'],
    ['year 1970', 'Thu, 01 Jan 1970 00:00:00 GMT'],
  ])('the service clock reports a difference of more than a day but does not use it: %s', async (_, date) => {
    const { serviceClock, respond, error } = createScene();
    for (let time = 0; time < 5; time += 1) await respond(date);
    expect(Math.abs(serviceClock.skew() ?? 0)).toBeGreaterThan(365 * 24 * HOUR);
    expect([error(), serviceClock.latest(NOON)]).toEqual([0, NOON]);
  });

  it('the service clock ignores responses that may be outdated or from an intermediary', async () => {
    const { serviceClock, respond, error } = createScene();
    for (let time = 0; time < 5; time += 1) await respond(header(NOON - HOUR), { isDoubtful: true });
    expect([serviceClock.skew(), error()]).toEqual([undefined, 0]);
    expect(serviceClock.largestSkew()).toBeGreaterThan(HOUR - SECOND);
  });

  it.each([600_000, -600_000])(
    'a wrong Date (%d ms) is not used if new events agree with the clock of the agent',
    async wrong => {
      const { scene, serviceClock, poll, serviceNow, error } = createScene(wrong);
      await poll(3);
      serviceClock.observeLog(undefined);
      expect(Math.abs(error())).toBeLessThan(SECOND);
      await poll(1);
      // The clock of the data is the agent's.
      serviceClock.observeLog(serviceNow() - wrong - 2 * SECOND);
      expect([serviceClock.skew(), serviceClock.at(NOON)]).toEqual([0, NOON]);
      await poll(1);
      serviceClock.observeLog(undefined);
      expect(serviceClock.at(NOON)).toBe(NOON);
      // The next Date is another clock, which new events confirm.
      scene.ahead = wrong / 2;
      await poll(3);
      serviceClock.observeLog(serviceNow() - 2 * SECOND);
      expect(Math.abs(error())).toBeLessThan(SECOND);
    },
  );

  it.each([600_000, -600_000])('a Date (%d ms) is used if new events agree, are delayed or missing', async ahead => {
    const { serviceClock, poll, serviceNow, error } = createScene(ahead);
    await poll(3);
    serviceClock.observeLog(serviceNow() - HOUR);
    for (const newest of [undefined, serviceNow(), serviceNow() - 2 * MINUTE, serviceNow() + 30 * 24 * HOUR]) {
      await poll(1);
      serviceClock.observeLog(newest);
      expect(Math.abs(error())).toBeLessThan(SECOND);
    }
  });
});

it('the service clock reports the largest clock skew for five to ten minutes after its measurement', async () => {
  const { serviceClock, serviceNow, respond, advance } = createScene();
  const { largestSkew } = serviceClock;
  expect(largestSkew()).toBeUndefined();
  await respond(header(serviceNow() + 60_000));
  await respond();
  expect(largestSkew()).toBe(60_000);
  await advance(5 * MINUTE);
  await respond(header(serviceNow() - 8000));
  await respond('yesterday');
  expect(largestSkew()).toBe(60_000);
  await advance(5 * MINUTE);
  expect(largestSkew()).toBe(7001);
  await respond();
  expect(largestSkew()).toBe(7001);
  await advance(5 * MINUTE);
  expect(largestSkew()).toBe(0);
});

it('the service clock reports an unknown largest skew ten minutes after the last readable Date', async () => {
  const { serviceClock, respond, advance } = createScene();
  await respond();
  await advance(5 * MINUTE - 1);
  expect(serviceClock.largestSkew()).toBe(0);
  await advance(5 * MINUTE + 1);
  expect(serviceClock.largestSkew()).toBeUndefined();
});

it.each([
  ['200', 200, {}, 90_000],
  ['404', 404, {}, undefined],
  ['200 from a cache', 200, { age: '7200' }, undefined],
])('the client measures the clock skew from responses: %s', async (_, status, headers, expected) => {
  const service = await serve((_request, response) => {
    response.setHeader('date', header(Date.now() + 90_000));
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    json(response, { flowControls: [] }, status);
  });
  const serviceClock = createServiceClock({ now: () => Date.now(), monotonic: () => performance.now() });
  const { reader } = createTestClient(service.url, { serviceClock });
  for (let time = 0; time < 2; time += 1) await allKeys(reader, new AbortController().signal).catch(() => undefined);
  const skew = serviceClock.skew();
  if (expected === undefined) expect(skew).toBeUndefined();
  else expect(Math.abs((skew ?? 0) - expected)).toBeLessThan(5000);
  expect(serviceClock.largestSkew()).toBeGreaterThan(85_000);
});
