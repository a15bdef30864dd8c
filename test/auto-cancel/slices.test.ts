import { expect, it } from 'vitest';
import { type AutoCancelDeps, createAutoCancel } from '../../src/auto-cancel/account.ts';
import { autoCancelOptions } from '../../src/auto-cancel/options.ts';
import type { CallbackSighting } from '../../src/model/callback.ts';
import type { DlqEntry } from '../../src/model/message.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { createTestLog, createTestTracer } from '../support/silent.ts';

const HOUR = 3_600_000;
const NOON = Date.UTC(2027, 0, 1, 12);
const END = new Date(NOON + 1000).toISOString();

/**
 * Creates auto-cancel for an account with `count` callbacks in progress and ten rules. Each rule matches all callbacks,
 * which become stuck at the same time.
 */
async function manyCallbacks(count: number, firstSeenAt: number) {
  const names = Array.from({ length: 10 }, (_, index) => `r${index}`);
  const match = { url: { prefix: ['https://a.example/'] }, label: { in: ['x'] } };
  const rules = names.map(name => ({ name, mode: 'approve', expires: END, grace: '0s', match }));
  const sightings = Array.from({ length: count }, (_, index): CallbackSighting => {
    const id = `${index}-0`;
    const entry = {
      id,
      dlqId: id,
      url: `https://a.example/${id}`,
      labels: ['x'],
      callbackState: 'in_progress',
    } as const;
    return { entry: entry as unknown as DlqEntry, firstSeenAt, lastSeenAt: NOON, snapshots: 600, episode: 'e' };
  });
  let facts = { at: NOON, walks: 9, maxGap: 0, sightings, isPartial: false, reportsStates: true };
  const [clock, log] = [createManualClock(NOON), createTestLog()];
  const autoCancel = await createAutoCancel({
    account: 'production',
    options: autoCancelOptions.parse({
      mode: 'enforce',
      rules,
      breaker: { candidates: { max: 1_000_000, percent: 100 } },
    }),
    policy: 'p',
    store: createMemoryStore(),
    reader: {},
    lastReader: {},
    writer: undefined,
    walk: () => ({ facts, isFresh: true, eventsAreFresh: true }),
    isStopped: () => false,
    brake: { pause: undefined, isKnown: true },
    clockSkew: () => 0,
    alertStates: () => new Map(),
    clock,
    log,
    tracer: createTestTracer(),
  } as unknown as AutoCancelDeps);
  return {
    autoCancel,
    clock,
    lines: () =>
      log.lines
        .filter(({ message }) => message.endsWith('skipped'))
        .map(({ fields }) => fields as Record<string, string>),
    nextWalk() {
      facts = { ...facts, at: NOON + 1, sightings: [] };
    },
  };
}

/** Awaits `work` and returns the number of event-loop turns that it takes. `onTurn` is called in each turn. */
async function turnsOf(work: Promise<unknown>, onTurn: (turn: number) => unknown = () => undefined): Promise<number> {
  let [turns, isDone] = [0, false];
  const count = () => {
    turns += 1;
    onTurn(turns);
    if (!isDone) setImmediate(count);
  };
  setImmediate(count);
  await work.finally(() => {
    isDone = true;
  });
  return turns;
}

const running = () => new AbortController().signal;

it.each([
  ['not stuck', NOON - HOUR],
  ['stuck', NOON - 100 * HOUR],
])('2,000 callbacks and ten rules are evaluated in slices: %s', async (_, firstSeenAt) => {
  const { autoCancel, lines } = await manyCallbacks(2000, firstSeenAt);
  expect(await turnsOf(autoCancel.run(running()))).toBeGreaterThan(8);
  expect(lines()).toHaveLength(2000);
});

it('all callbacks of a walk are evaluated as of the same time, even if time passes between slices', async () => {
  const { autoCancel, clock, lines } = await manyCallbacks(2000, NOON - HOUR);
  await turnsOf(autoCancel.run(running()), turn => (turn === 3 ? clock.advance(HOUR) : undefined));
  expect(clock.now()).toBe(NOON + HOUR);
  expect(new Set(lines().map(({ mode }) => mode))).toEqual(new Set(['approve']));
});

it('a decision is discarded if a newer walk completes between slices', async () => {
  const { autoCancel, lines, nextWalk } = await manyCallbacks(2000, NOON - HOUR);
  await turnsOf(autoCancel.run(running()), turn => (turn === 3 ? nextWalk() : undefined));
  expect(lines()).toEqual([]);
});

it('an aborted run stops between slices', async () => {
  const { autoCancel, lines } = await manyCallbacks(2000, NOON - HOUR);
  const stopping = new AbortController();
  const run = autoCancel.run(stopping.signal);
  const turns = turnsOf(run, turn => (turn === 3 ? stopping.abort(new Error('stopped')) : undefined));
  await expect(turns).rejects.toThrow('stopped');
  expect(lines()).toEqual([]);
});
