import { describe, expect, it } from 'vitest';
import { createCollectorState, type Freshness } from '../../src/scheduler/board.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const STALENESS = { markAfter: 3, withdrawAfter: 20, withdrawAtMost: 30 * MINUTE };

/**
 * Simulates consecutive agent processes, each restored from the rows of the previous one, with a round every minute.
 * `restart` can let time pass between two processes.
 */
function createAgents() {
  let [time, step] = [Date.UTC(2026, 5, 1), 0];
  let stored: Readonly<Record<string, Freshness>> = {};
  let bornAt = time;
  const start = () => {
    bornAt = time;
    const options = { account: 'a', collector: 'x', restored: stored };
    const clock = { now: () => time + step, monotonic: () => time - bornAt };
    return createCollectorState(options, { list: { every: MINUTE } }, STALENESS, clock);
  };
  let slot = start();
  const save = () => {
    stored = slot.freshness();
  };
  save();
  return {
    pass(ms: number) {
      time += ms;
    },
    set(ms: number) {
      step += ms;
    },
    succeed(durationSeconds = 1) {
      slot.observed('list', { at: time, facts: 'facts' });
      slot.succeeded('list', { durationSeconds });
      save();
    },
    fail() {
      slot.failed('list', { durationSeconds: 1, complete: false, reason: 'server', message: 'status 500' });
      save();
    },
    idle(why: 'waiting' | 'not_due') {
      slot.idled('list', why);
      save();
    },
    restart(downFor = 0) {
      time += downFor;
      slot = start();
      save();
    },
    shown: () => slot.visible().now,
    isStale: () => slot.status().rounds[0]?.stale,
    staleFor: () => slot.staleFor('list'),
  };
}

describe('data freshness across restarts', () => {
  it('data stays stale during an outage across restarts', () => {
    const agents = createAgents();
    agents.succeed();
    agents.pass(4 * MINUTE);
    agents.fail();
    expect(agents.isStale()).toBe(true);
    agents.restart();
    expect([agents.isStale(), agents.staleFor()]).toEqual([true, MINUTE]);
    agents.pass(MINUTE);
    agents.fail();
    agents.restart(MINUTE);
    expect([agents.isStale(), agents.staleFor()]).toEqual([true, 3 * MINUTE]);
    agents.succeed();
    expect([agents.isStale(), agents.staleFor()]).toEqual([false, 0]);
    agents.restart();
    expect(agents.isStale()).toBe(false);
  });

  it('data becomes stale during a crash loop in which no process completes a round', () => {
    const agents = createAgents();
    for (let life = 0; life < 6; life += 1) {
      agents.pass(10_000);
      agents.restart(20_000);
    }
    expect(agents.isStale()).toBe(false);
    agents.restart(1);
    expect(agents.isStale()).toBe(true);
  });

  it('agent downtime does not make data stale; after a restart, data becomes stale when the first attempt fails or is overdue', () => {
    const agents = createAgents();
    agents.succeed();
    agents.restart(HOUR);
    expect(agents.isStale()).toBe(false);
    agents.pass(MINUTE);
    expect(agents.isStale()).toBe(false);
    agents.fail();
    expect([agents.isStale(), agents.staleFor()]).toEqual([true, 0]);
    const untried = createAgents();
    untried.succeed();
    untried.restart(HOUR);
    untried.pass(3 * MINUTE + 1);
    expect(untried.isStale()).toBe(true);
  });

  it('data read after a restart is withdrawn no earlier and no later than usual', () => {
    const agents = createAgents();
    agents.succeed();
    agents.restart(HOUR);
    agents.succeed();
    agents.pass(20 * MINUTE);
    expect(agents.shown()).toBe('facts');
    agents.pass(1);
    expect(agents.shown()).toBeUndefined();
  });

  it('a long round may take as long as the previous one, even after a restart', () => {
    const agents = createAgents();
    agents.succeed(10 * 60);
    agents.fail();
    agents.restart(29 * MINUTE);
    agents.fail();
    expect(agents.isStale()).toBe(false);
    agents.pass(MINUTE + 1);
    expect(agents.isStale()).toBe(true);
  });

  it('wall clock changes while the process runs do not affect freshness', () => {
    for (const step of [-HOUR, HOUR]) {
      const agents = createAgents();
      agents.succeed();
      agents.set(step);
      agents.pass(MINUTE);
      expect(agents.isStale()).toBe(false);
      // The row was saved with the changed clock.
      agents.fail();
      agents.restart();
      expect([agents.isStale(), agents.staleFor()]).toEqual([false, 0]);
      agents.pass(2 * MINUTE + 1);
      expect([agents.isStale(), agents.staleFor()]).toEqual([true, 1]);
    }
  });

  it('data becomes stale on time even if the wall clock was set back between two processes', () => {
    const agents = createAgents();
    agents.succeed();
    agents.set(-HOUR);
    agents.restart();
    agents.pass(3 * MINUTE);
    expect(agents.isStale()).toBe(false);
    agents.pass(1);
    expect(agents.isStale()).toBe(true);
  });

  it('data stays fresh while no round is due, but not while a round is waiting for another one or has failed', () => {
    const agents = createAgents();
    for (let round = 0; round < 60; round += 1) {
      agents.idle('not_due');
      agents.pass(MINUTE);
    }
    expect(agents.isStale()).toBe(false);
    agents.restart(HOUR);
    agents.idle('not_due');
    expect(agents.isStale()).toBe(false);
    for (let round = 0; round < 4; round += 1) {
      agents.idle('waiting');
      agents.pass(MINUTE);
    }
    expect(agents.isStale()).toBe(true);
    const failed = createAgents();
    failed.fail();
    for (let round = 0; round < 4; round += 1) {
      failed.idle('not_due');
      failed.pass(MINUTE);
    }
    expect(failed.isStale()).toBe(true);
  });
});
