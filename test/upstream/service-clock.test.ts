import { expect, it } from 'vitest';
import { createServiceClock, provenSkew } from '../../src/upstream/service-clock.ts';
import { allKeys, createTestClient } from '../support/client.ts';
import { json, serve } from '../support/http-service.ts';
import { createManualClock } from '../support/manual-clock.ts';

const MINUTE = 60_000;
const NOON = Date.UTC(2027, 0, 1, 12);
const header = (time: number) => new Date(time).toUTCString();

it.each([
  ['equal clocks', header(NOON), NOON, NOON + 50, 0],
  ['a second that has just begun', header(NOON), NOON + 999, NOON + 999, 0],
  ['a slow response, whose Date may be from any time in between', header(NOON), NOON - 20_000, NOON + 1000, 0],
  ['a clock that is ahead', header(NOON), NOON + 61_999, NOON + 62_100, 61_000],
  ['a clock that is behind', header(NOON), NOON - 62_100, NOON - 62_000, 62_000],
  ['no Date', undefined, NOON, NOON, undefined],
  ['two Dates', [header(NOON), header(NOON)], NOON, NOON, undefined],
  ['an invalid Date', 'yesterday', NOON, NOON, undefined],
])('provenSkew derives the minimum clock skew from the Date of a response: %s', (_, date, before, after, expected) => {
  expect(provenSkew(date, before, after)).toBe(expected);
});

it('the service clock reports the largest clock skew for five to ten minutes after its measurement', async () => {
  const clock = createManualClock(NOON);
  const { observe, skew } = createServiceClock(clock);
  const respond = (difference: number) => observe(header(clock.now() + difference), clock.now(), clock.now());
  expect(skew()).toBeUndefined();
  respond(60_000);
  respond(0);
  expect(skew()).toBe(60_000);
  await clock.advance(5 * MINUTE);
  respond(8000);
  observe('yesterday', clock.now(), clock.now());
  expect(skew()).toBe(60_000);
  await clock.advance(5 * MINUTE);
  expect(skew()).toBe(8000);
  respond(0);
  expect(skew()).toBe(8000);
  await clock.advance(5 * MINUTE);
  expect(skew()).toBe(0);
});

it('the service clock reports an unknown clock skew ten minutes after the last readable Date', async () => {
  const clock = createManualClock(NOON);
  const { observe, skew } = createServiceClock(clock);
  observe(header(NOON), NOON, NOON);
  await clock.advance(5 * MINUTE - 1);
  expect(skew()).toBe(0);
  await clock.advance(5 * MINUTE + 1);
  expect(skew()).toBeUndefined();
});

it.each([200, 404])(
  'the service clock measures the clock skew from every response of the service: status %i',
  async status => {
    const service = await serve((_request, response) => {
      response.setHeader('date', header(Date.now() + 90_000));
      json(response, { flowControls: [] }, status);
    });
    const serviceClock = createServiceClock(createManualClock(NOON));
    const { reader } = createTestClient(service.url, { serviceClock });
    await allKeys(reader, new AbortController().signal).catch(() => undefined);
    expect(serviceClock.skew()).toBeGreaterThan(85_000);
    expect(serviceClock.skew()).toBeLessThan(91_000);
  },
);
