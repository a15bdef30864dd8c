import { describe, expect, it } from 'vitest';
import { type Collector, withAbsence, withReader } from '../../src/collectors/collector.ts';
import { accountStatus, createCollectorState } from '../../src/scheduler/board.ts';
import { createRunner } from '../../src/scheduler/runner.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import type { Reader } from '../../src/upstream/api.ts';
import { UpstreamError } from '../../src/upstream/errors.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { createTestLog, createTestTracer } from '../support/silent.ts';

const MINUTE = 60_000;
const STALENESS = { markAfter: 3, withdrawAfter: 20, withdrawAtMost: 30 * MINUTE };
const WRONG_REGION = 'user (00000000-0000-4000-8000-000000000000) not found in this region (eu-central-1)';

const failure = (status: number, serviceError?: string) =>
  new UpstreamError(status === 404 ? 'not_found' : 'server', `GET /v2/extras: status ${status}`, {
    status,
    serviceError,
  });

/** Creates an optional collector. Tests set the results or errors of its reads and of reads of another list. */
async function setUp() {
  const service = { extras: 'facts' as string | Error, other: undefined as Error | undefined, otherReads: 0 };
  const collector: Collector<string, string, never> = {
    name: 'extras',
    title: 'Extras',
    families: {},
    isOptional: true,
    rounds: { extras: { every: 5 * MINUTE, requests: 1, priority: 'background' } },
    restore: () => '',
    async observe() {
      const facts = service.extras;
      if (facts instanceof Error) throw facts;
      return { fold: memory => ({ memory, facts, changes: [] }), more: undefined };
    },
  };
  const readOther = async () => {
    service.otherReads += 1;
    if (service.other) throw service.other;
  };
  const clock = createManualClock();
  const which = { account: 'a', collector: 'extras', isOptional: true };
  const state = createCollectorState<string>(which, collector.rounds, STALENESS, clock);
  const { observe, ...rest } = withReader(withAbsence(collector, readOther), () => ({}) as Reader);
  const deps = { state, store: createMemoryStore(), clock, log: createTestLog(), tracer: createTestTracer() };
  const run = await createRunner({ observer: { ...rest, observe }, ...deps });
  const round = () => state.status().rounds[0];
  return { service, state, clock, round, run: () => run('extras', new AbortController().signal) };
}

describe('an optional collector', () => {
  it('regards a 404 as missing data if another list is readable, and probes the endpoint once an hour', async () => {
    const { service, state, clock, round, run } = await setUp();
    service.extras = failure(404);
    await run();
    expect(round()).toMatchObject({ idle: 'absent', success: undefined, failure: undefined, consecutiveFailures: 0 });
    expect(state.retry('extras')).toBe(60 * MINUTE);
    await clock.advance(59 * MINUTE);
    expect(round()).toMatchObject({ stale: false });
    expect(state.visible()).toEqual({ now: undefined, committed: undefined });
  });

  it('reads the data once the endpoint appears, and withdraws it when the endpoint disappears', async () => {
    const { service, state, round, run } = await setUp();
    service.extras = failure(405);
    await run();
    service.extras = 'facts';
    await run();
    expect(round()).toMatchObject({ success: true, idle: undefined });
    expect([state.visible().now, state.retry('extras')]).toEqual(['facts', undefined]);
    service.extras = failure(404);
    await run();
    expect(state.shown().now).toBeUndefined();
    expect(round()).toMatchObject({ idle: 'absent', dataAt: undefined, stale: false });
  });

  it('reports a 404 of all endpoints as a failure', async () => {
    const { service, round, run } = await setUp();
    service.extras = failure(404);
    service.other = failure(404);
    await run();
    expect(service.otherReads).toBe(1);
    expect(round()).toMatchObject({
      success: false,
      idle: undefined,
      failure: { reason: 'not_found', message: 'GET /v2/extras: status 404' },
    });
  });

  it.each([
    ['a token of another region', failure(404, WRONG_REGION)],
    ['an unavailable service', failure(500)],
  ])('reports %s as a failure without reading another list', async (_, error) => {
    const { service, round, run } = await setUp();
    service.extras = error;
    await run();
    expect(round()).toMatchObject({ success: false, idle: undefined, consecutiveFailures: 1 });
    expect(service.otherReads).toBe(0);
  });

  it('an optional collector that fails keeps its data, marks the data as stale, and leaves the account up', async () => {
    const { service, state, clock, round, run } = await setUp();
    const up = () => accountStatus('a', [state]).up;
    expect(up()).toBe(true);
    await run();
    service.extras = failure(500);
    await clock.advance(16 * MINUTE);
    await run();
    expect([state.visible().now, round()?.stale, up()]).toEqual(['facts', true, true]);
  });
});
