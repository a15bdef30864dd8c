import { describe, expect, it } from 'vitest';
import type { FlowControlFacts } from '../../src/collectors/flow-control/families.ts';
import { createFlowControl, flowControl } from '../../src/collectors/flow-control/flow-control.ts';
import { afterThisTest, createTestClient } from '../support/client.ts';
import { json, startHttpService } from '../support/http-service.ts';

/** Creates a collector, and a service that responds as set in `state`. */
async function setUp(options: object) {
  const state = {
    /** Waitlist sizes in the list and in responses for single keys. */
    list: {} as Record<string, number>,
    single: {} as Record<string, number | string | undefined>,
    /** Response status for a key that is missing in `single`. */
    status: 404,
    /** Number of unreadable rows in the list. */
    bad: 0,
    /** Response to all requests, if set. */
    failure: undefined as { status: number; body: unknown } | undefined,
    now: 0,
    /** Number of keys in the facts of the last round. */
    keys: 0 as number | undefined,
  };
  const service = await startHttpService((request, response) => {
    if (state.failure) return json(response, state.failure.body, state.failure.status);
    const key = /^\/v2\/flowControl\/(.+)$/.exec(request.url ?? '')?.[1];
    if (key === undefined) {
      const rows = Object.entries(state.list).map(([flowControlKey, waitListSize]) => ({
        flowControlKey,
        waitListSize,
      }));
      return json(response, [...rows, ...Array(state.bad).fill({ waitListSize: 3 })]);
    }
    const waitlistSize = state.single[decodeURIComponent(key)];
    if (waitlistSize === undefined) json(response, { error: 'not found' }, state.status);
    else json(response, { waitlistSize });
  });
  afterThisTest(() => service.close());
  const api = createTestClient(service.url).reader;
  const parsed = flowControl.options.parse(options);
  const collector = createFlowControl(parsed, { now: () => state.now });
  let memory = collector.restore(new Map());
  const observe = (round: string) =>
    collector.observe({
      api,
      round,
      now: 0,
      memory,
      walk: undefined,
      signal: new AbortController().signal,
    });
  const fold = ({ fold }: Awaited<ReturnType<typeof observe>>) => {
    const folded = fold(memory);
    memory = folded.memory;
    const { keys, shown } = folded.facts as FlowControlFacts;
    state.keys = keys;
    return Object.fromEntries(shown.map(({ key, waitlistSize }) => [key, waitlistSize]));
  };
  return { state, service, parsed, observe, fold, round: async (round: string) => fold(await observe(round)) };
}

describe('watched keys', () => {
  it('reads watched keys in a separate round that exists only if keys are watched', async () => {
    const { parsed } = await setUp({ watch: ['a', 'b'], watchEvery: '2s' });
    expect(flowControl.rounds(parsed)).toEqual({
      list: { every: 15_000, requests: 1, why: expect.any(String), priority: 'flow_control' },
      watch: { every: 2000, requests: 2, why: 'reads each watched key', priority: 'flow_control' },
    });
    expect(flowControl.rounds(flowControl.options.parse({}))).toEqual({
      list: { every: 15_000, requests: 1, why: expect.any(String), priority: 'flow_control' },
    });
  });

  it('shows the newest value of a watched key, whether read from the list or individually', async () => {
    const { state, round } = await setUp({ watch: ['a'] });
    state.list = { a: 5, b: 1 };
    state.single = { a: 6 };
    expect(await round('list')).toEqual({ a: 5, b: 1 });
    expect(await round('watch')).toEqual({ b: 1, a: 6 });
    state.list = { a: 7, b: 2 };
    expect(await round('list')).toEqual({ a: 7, b: 2 });
  });

  it('uses the latest response if a list and an individual read overlap', async () => {
    const { state, observe, fold } = await setUp({ watch: ['a'] });
    state.list = { a: 5 };
    const list = await observe('list');
    state.single = { a: 6 };
    const watch = await observe('watch');
    fold(list);
    expect(fold(watch)).toEqual({ a: 6 });
  });

  it('shows a watched key as idle if neither its individual read nor a list read in the same round finds it', async () => {
    const { state, service, round } = await setUp({ watch: ['a', 'unheard of'] });
    state.list = { a: 5, b: 1 };
    state.single = { a: 5 };
    await round('list');
    await round('watch');
    state.single = {};
    state.list = { b: 2 };
    service.requests.length = 0;
    expect(await round('watch')).toEqual({ b: 1, a: 0 });
    expect(service.requests).toEqual([
      'GET /v2/flowControl/a',
      'GET /v2/flowControl/unheard%20of',
      'GET /v2/flowControl',
    ]);
    expect(await round('list')).toEqual({ b: 2, a: 0 });
  });

  it('reads no list for watched keys that a recent list did not contain', async () => {
    const { state, service, round } = await setUp({ watch: ['a', 'unheard of'], every: '15s' });
    state.list = { a: 5 };
    await round('list');
    state.list = {};
    await round('watch');
    service.requests.length = 0;
    const single = ['GET /v2/flowControl/a', 'GET /v2/flowControl/unheard%20of'];
    for (state.now of [5000, 10_000, 30_000]) expect(await round('watch')).toEqual({ a: 0 });
    expect(service.requests).toEqual([...single, ...single, ...single]);
    service.requests.length = 0;
    state.now = 31_000;
    await round('watch');
    expect(service.requests).toEqual([...single, 'GET /v2/flowControl']);
    await round('list');
    state.now = 0;
    service.requests.length = 0;
    await round('watch');
    expect(service.requests, 'after the clock was set back').toEqual([...single, 'GET /v2/flowControl']);
  });

  it('checks the list again if a key disappears after it was found', async () => {
    const { state, service, round } = await setUp({ watch: ['a'] });
    await round('list');
    state.single = { a: 5 };
    expect(await round('watch')).toEqual({ a: 5 });
    state.single = {};
    state.list = { a: 5 };
    service.requests.length = 0;
    await expect(round('watch')).rejects.toMatchObject({ status: 404 });
    expect(service.requests).toEqual(['GET /v2/flowControl/a', 'GET /v2/flowControl']);
  });

  it.each([404, 400, 405, 410, 422, 403, 503])(
    'fails and keeps the values if a listed key responds with status %d',
    async status => {
      const { state, round } = await setUp({ watch: ['a'] });
      state.list = { a: 5 };
      state.single = { a: 6 };
      await round('list');
      await round('watch');
      state.single = {};
      state.status = status;
      await expect(round('watch')).rejects.toMatchObject({ status });
      expect(await round('list')).toEqual({ a: 5 });
    },
  );

  it.each([
    [404, { error: 'user (0000) not found in this region (eu-central-1)' }],
    [404, '<html>'],
    [502, {}],
    [200, { message: 'maintenance' }],
  ])('fails and keeps the values if the list cannot be read either: status %d with %j', async (status, body) => {
    const { state, observe, round } = await setUp({ watch: ['a', 'unheard of'] });
    state.list = { a: 114 };
    expect(await round('list')).toEqual({ a: 114 });
    state.failure = { status, body };
    await expect(observe('watch')).rejects.toThrow();
    state.failure = undefined;
    state.single = { a: 114, 'unheard of': 1 };
    expect(await round('watch')).toEqual({ a: 114, 'unheard of': 1 });
  });

  it('the watch round is partial and keeps the old values if unreadable rows of the list may be the missing keys', async () => {
    const { state, observe, fold, round } = await setUp({ watch: ['a'] });
    state.list = { a: 5 };
    await round('list');
    state.list = { b: 1 };
    state.bad = 1;
    const watch = await observe('watch');
    expect(watch.isPartial).toBe(true);
    expect(fold(watch)).toEqual({ a: 5 });
  });

  it('does not show a key as idle if a list that was read concurrently contains it', async () => {
    const { state, observe, fold, round } = await setUp({ watch: ['a'] });
    state.single = { a: 1 };
    await round('watch');
    state.single = {};
    await round('list');
    const watch = await observe('watch');
    state.now = 1000;
    state.list = { a: 3 };
    expect(await round('list')).toEqual({ a: 3 });
    expect(fold(watch)).toEqual({ a: 3 });
  });

  it('the watch round is partial if the value of a watched key is unreadable, and omits this value', async () => {
    const { state, observe, fold } = await setUp({ watch: ['a'] });
    state.single = { a: 'many' };
    const watch = await observe('watch');
    expect(watch.isPartial).toBe(true);
    expect(fold(watch)).toEqual({ a: undefined });
  });

  it('shows watched keys before the first list, beyond the cap and despite exclude', async () => {
    const { state, round } = await setUp({ watch: ['a'], include: ['b*'], exclude: ['a'], maxSeries: 2 });
    state.single = { a: 1 };
    state.list = { a: 1, b1: 10, b2: 20, c: 5 };
    expect(await round('watch')).toEqual({ a: 1 });
    expect(await round('list')).toEqual({ a: 1, b2: 20 });
  });
});

it('a watched key that is missing from a list with unreadable rows is not shown as idle', async () => {
  const { state, observe, round } = await setUp({ watch: ['a'] });
  state.list = { a: 5, b: 1, c: 7, d: 2 };
  await round('list');
  state.list = { d: 3 };
  state.bad = 2;
  expect((await observe('list')).isPartial).toBe(true);
  expect(await round('list')).toEqual({ d: 3 });
  expect(state.keys).toBe(3);
  state.bad = 0;
  expect((await observe('list')).isPartial).toBe(false);
  expect(await round('list')).toEqual({ d: 3, a: 0 });
  expect(state.keys).toBe(1);
});
