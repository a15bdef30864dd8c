import { join } from 'node:path';
import { expect, it } from 'vitest';
import { withReader } from '../../../src/collectors/collector.ts';
import { createDlq, dlq } from '../../../src/collectors/dlq/dlq.ts';
import type { DlqFacts } from '../../../src/collectors/dlq/families.ts';
import type { Dialect } from '../../../src/emulator/dialect.ts';
import { type Emulator, startEmulator } from '../../../src/emulator/server.ts';
import { retriesEndAfter, STUCK_DEFAULTS } from '../../../src/model/callback.ts';
import { type CollectorState, createCollectorState } from '../../../src/scheduler/board.ts';
import { createRunner, type RunRound } from '../../../src/scheduler/runner.ts';
import { openSqliteStore } from '../../../src/store/sqlite.ts';
import type { Store } from '../../../src/store/store.ts';
import { afterThisTest, createTestClient, TOKEN } from '../../support/client.ts';
import { newFolder } from '../../support/folder.ts';
import { createManualClock } from '../../support/manual-clock.ts';
import { samplesBy } from '../../support/samples.ts';
import { createTestLog, createTestTracer } from '../../support/silent.ts';

const MINUTE = 60_000;
const WALKS = 50;
const EVERY = 90 * MINUTE;
/** Time in progress after which a callback is suspected to be stuck (ms). */
const LONG = retriesEndAfter({ maxRetries: undefined }, STUCK_DEFAULTS).ms;

/** Creates an agent that can be killed. Only its store survives. */
async function createAgent(emulator: Emulator) {
  const path = join(newFolder(), 'store.db');
  const clock = { ...createManualClock(), now: () => emulator.clock.now() };
  const { reader } = createTestClient(emulator.url, { clock });
  const collector = createDlq(dlq.options.parse({ rescanEvery: '90m' }), {
    callbacks: { unreported: [], maxGap: 2 * EVERY },
  });
  let store: Store | undefined;
  let run: RunRound;
  let slot: CollectorState<DlqFacts>;
  /** Number of requests in the current round, and the number of the request at which the process is killed. */
  let requests = 0;
  let last = Number.POSITIVE_INFINITY;
  let giveUp = new AbortController();
  const api: typeof reader = {
    ...reader,
    async *dlqPages(query, signal) {
      const pages = reader.dlqPages(query, signal);
      for (;;) {
        requests += 1;
        if (requests > last) giveUp.abort();
        signal.throwIfAborted();
        const { done, value } = await pages.next();
        if (done) return;
        yield value;
      }
    },
  };
  async function start() {
    await store?.close();
    const opened = await openSqliteStore({ path });
    store = opened;
    slot = createCollectorState(
      { account: 'a', collector: 'dlq' },
      { full: { every: EVERY } },
      { markAfter: 3, withdrawAfter: 20, withdrawAtMost: 30 * MINUTE },
      clock,
    );
    run = await createRunner({
      observer: withReader(collector, () => api),
      state: slot,
      store: opened,
      clock,
      log: createTestLog(),
      tracer: createTestTracer(),
    });
  }
  afterThisTest(async () => store?.close());
  await start();
  return {
    facts: () => slot.visible().now,
    /** Runs a walk. The process is killed at request number `most` if the walk makes that many. */
    async walk(most = Number.POSITIVE_INFINITY) {
      [requests, last, giveUp] = [0, most, new AbortController()];
      await run('full', giveUp.signal);
      return requests;
    },
    kill: start,
    async rows() {
      return [...((await store?.scan('a', 'dlq/callbacks')) ?? new Map()).keys()];
    },
  };
}

/** Returns the callbacks in progress from the emulator's state, bypassing its request handlers. */
function inProgress({ state }: Emulator): string[] {
  return state
    .dlqRows()
    .filter(({ failureCallbackInfo }) => failureCallbackInfo?.state === 'CALLBACK_INPROGRESS')
    .map(({ dlqId }) => dlqId);
}

it.each<[Partial<Dialect>]>([
  [{ dlqWorkflows: 'included' }],
  [{ dlqWorkflows: 'separate', callbackState: 'failureFunctionState' }],
])('finds stuck callbacks and their start despite kills at any point: %o', { timeout: 60_000 }, async dialect => {
  const emulator = await startEmulator({ scenario: 'stuck-callback', speed: 0, token: TOKEN, dialect });
  afterThisTest(() => emulator.close());
  const agent = await createAgent(emulator);
  const since = new Map<string, number>();
  const firstWalk = new Map<string, number>();
  const ends: Record<string, number> = { success: 0, fail: 0, canceled: 0 };
  let [walks, ended, killed, least] = [0, 0, 0, Number.POSITIVE_INFINITY];
  /** Records a completed walk. Returns its time and the callbacks in progress. */
  function look() {
    const [now, current] = [emulator.clock.now(), inProgress(emulator)];
    walks += 1;
    for (const id of since.keys()) {
      if (current.includes(id)) continue;
      since.delete(id);
      ended += 1;
      const row = emulator.state.dlqRows().find(({ dlqId }) => dlqId === id);
      const end = row?.failureCallbackInfo?.state.replace('CALLBACK_', '').toLowerCase();
      if (end) ends[end] = (ends[end] ?? 0) + 1;
    }
    for (const id of current) {
      if (!since.has(id)) firstWalk.set(id, walks);
      since.set(id, since.get(id) ?? now);
    }
    return [now, current] as const;
  }
  for (let walk = 1; walk <= WALKS; walk += 1) {
    if (walk % 3 === 0) {
      // Kill the process at a different request of a walk each time, or between two walks.
      await agent.walk(killed % (least + 1));
      if (agent.facts()?.tracked?.at === emulator.clock.now()) look();
      await agent.kill();
      killed += 1;
      expect(agent.facts()).toBeUndefined();
    }
    least = Math.min(least, await agent.walk());
    const [now, current] = look();
    const { tracked, callbacks, suspected } = agent.facts() as DlqFacts;
    expect(new Map(tracked?.sightings.map(({ entry, firstSeenAt }) => [entry.id, firstSeenAt]))).toEqual(since);
    for (const { entry, lastSeenAt, snapshots } of tracked?.sightings ?? []) {
      expect([lastSeenAt, snapshots]).toEqual([now, walks - (firstWalk.get(entry.id) ?? 0) + 1]);
    }
    expect(samplesBy(dlq, agent.facts() as DlqFacts).oldestInProgress).toEqual([
      { labels: {}, value: Math.min(...since.values()) / 1000 },
    ]);
    expect(suspected).toBe([...since.values()].filter(first => now - first > LONG).length);
    expect(callbacks?.in_progress).toBe(dialect.dlqWorkflows === 'included' ? current.length : undefined);
    expect(agent.facts()?.endedCallbacks).toEqual(ends);
    const rows = await agent.rows();
    expect(rows.filter(key => !key.endsWith('-ended'))).toHaveLength(since.size + 1);
    emulator.clock.advance(EVERY);
  }
  expect(ended).toBeGreaterThan(3);
  expect(agent.facts()?.suspected).toBeGreaterThan(5);
  expect(killed).toBeGreaterThan(2 * least);
  // The agent is down for longer than the allowed gap, so episodes restart.
  await agent.kill();
  emulator.clock.advance(EVERY + 1);
  await agent.walk();
  const { tracked, suspected } = agent.facts() as DlqFacts;
  expect(tracked?.sightings.length).toBeGreaterThan(5);
  expect(tracked?.sightings.every(({ snapshots }) => snapshots === 1)).toBe(true);
  expect(suspected).toBe(0);
});
