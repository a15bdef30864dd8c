import { createCollectorState } from '../../src/scheduler/board.ts';
import { createRunner, type Observer } from '../../src/scheduler/runner.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import type { Store } from '../../src/store/store.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { createTestLog, createTestTracer } from '../support/silent.ts';

export type Step = Awaited<ReturnType<Observer['observe']>>;

const STALENESS = { markAfter: 3, withdrawAfter: 20, withdrawAtMost: 1_800_000 };

export class Refusal extends Error {
  readonly reason = 'rate_limited';
}

export async function setUp(observe: Observer['observe'], store: Store = createMemoryStore(), rounds = ['list']) {
  const clock = createManualClock();
  const log = createTestLog();
  const tracer = createTestTracer();
  const slot = createCollectorState(
    { account: 'a', collector: 'x' },
    Object.fromEntries(rounds.map(round => [round, { every: 1000 }])),
    STALENESS,
    clock,
  );
  const observer: Observer = {
    name: 'x',
    restore: rows => [...rows].map(([key, value]) => `${key}=${value}`).join(),
    recall: memory => (memory === '' ? undefined : `recalled ${memory}`),
    observe,
  };
  const run = await createRunner({ observer, state: slot, store, clock, log, tracer });
  const round = () => slot.status().rounds[0];
  return {
    clock,
    log,
    tracer,
    slot,
    store,
    round,
    run: (signal = new AbortController().signal, name = 'list') => run(name, signal),
  };
}

export type Folded = ReturnType<Step['fold']>;

export const step = (more: unknown, folded: Partial<Folded>): Step => ({
  fold: () => ({ facts: undefined, memory: undefined, changes: [], ...folded }),
  more,
});

export const done = (facts: unknown, folded: Partial<Folded> = {}): Step => step(undefined, { facts, ...folded });
