import { describe, expect, it } from 'vitest';
import { accountStatus, createCollectorState } from '../../src/scheduler/board.ts';

const MINUTE = 60_000;

function slotWith(every: number) {
  let now = 0;
  const staleness = { markAfter: 3, withdrawAfter: 20, withdrawAtMost: 30 * MINUTE };
  const slot = createCollectorState({ account: 'a', collector: 'dlq' }, { full: { every } }, staleness, {
    now: () => now,
    monotonic: () => now,
  });
  const round = () => slot.status().rounds[0];
  return {
    slot,
    round,
    at: (minutes: number) => {
      now = minutes * MINUTE;
    },
    succeed(facts: unknown = 'facts', durationSeconds = 1) {
      slot.observed('full', { at: 1000, facts });
      slot.committed(facts);
      slot.succeeded('full', { durationSeconds });
    },
    fail: () => slot.failed('full', { durationSeconds: 1, complete: false, reason: 'server', message: 'status 500' }),
  };
}

describe('board', () => {
  it('the board shows no data before the first complete round, and marks a round that never completes as stale', () => {
    const { slot, round, at } = slotWith(MINUTE);
    expect(slot.visible().now).toBeUndefined();
    at(3);
    expect(round()).toMatchObject({ stale: false, success: undefined, dataAt: undefined });
    at(3.01);
    expect(round()?.stale).toBe(true);
    at(100);
    expect(slot.status().withdrawn).toBe(false);
  });

  it('an account is down before the first success, after a failed round and while data is stale', () => {
    const { slot, round, at, succeed, fail } = slotWith(MINUTE);
    const up = () => accountStatus('a', [slot]).up;
    expect(up()).toBe(false);
    succeed();
    expect(up()).toBe(true);
    fail();
    expect(up()).toBe(false);
    succeed();
    expect(up()).toBe(true);
    // A hanging round has not failed yet.
    at(3.01);
    expect(round()).toMatchObject({ success: true, stale: true });
    expect(up()).toBe(false);
  });

  it('the board keeps data that is no longer refreshed, marks it as stale, withdraws it, and shows data again after a success', () => {
    const { slot, round, at, succeed, fail } = slotWith(MINUTE);
    succeed();
    fail();
    const seen = [3, 3.01, 20, 20.01].map(minutes => {
      at(minutes);
      return [round()?.stale, slot.visible().now, slot.status().withdrawn];
    });
    expect(seen).toEqual([
      [false, 'facts', false],
      [true, 'facts', false],
      [true, 'facts', false],
      [true, undefined, true],
    ]);
    succeed('new');
    expect(slot.visible().now).toBe('new');
    expect(round()).toMatchObject({ stale: false, success: true, consecutiveFailures: 0, dataAt: 1000 });
  });

  it('the board withdraws data after withdrawAtMost if that is shorter than withdrawAfter, but never before the data is stale', () => {
    const hourly = slotWith(60 * MINUTE);
    hourly.succeed();
    hourly.at(180);
    expect(hourly.slot.visible().now).toBe('facts');
    hourly.at(180.01);
    expect(hourly.slot.visible().now).toBeUndefined();
    const quarter = slotWith(5 * MINUTE);
    quarter.succeed();
    quarter.at(30);
    expect(quarter.slot.visible().now).toBe('facts');
    quarter.at(30.01);
    expect(quarter.slot.visible().now).toBeUndefined();
  });

  it('the board allows a round to take as long as the previous one if that exceeded the interval', () => {
    const { slot, round, at, succeed } = slotWith(MINUTE);
    at(40);
    succeed('after a walk of forty minutes', 40 * 60);
    expect([slot.visible().now, round()?.stale]).toEqual(['after a walk of forty minutes', false]);
    at(80);
    expect([slot.visible().now !== undefined, round()?.stale]).toEqual([true, false]);
    at(160.01);
    expect([slot.visible().now, round()?.stale]).toEqual([undefined, true]);
  });

  it('the board keeps counters when gauges are withdrawn, and returns the same object while they are unchanged', () => {
    const { slot, at, succeed } = slotWith(MINUTE);
    succeed();
    const before = slot.shown();
    at(10);
    expect(slot.shown()).toBe(before);
    at(20.01);
    expect(slot.shown()).toEqual({ now: undefined, committed: 'facts' });
    expect(slot.shown()).toBe(slot.shown());
  });

  it('the board does not withdraw data because of an auxiliary round', () => {
    let now = 0;
    const staleness = { markAfter: 3, withdrawAfter: 20, withdrawAtMost: 30 * MINUTE };
    const which = { account: 'a', collector: 'x', auxiliary: ['watch'] };
    const slot = createCollectorState(which, { list: { every: MINUTE }, watch: { every: MINUTE } }, staleness, {
      now: () => now,
      monotonic: () => now,
    });
    now = 100 * MINUTE;
    slot.observed('list', { at: 1000, facts: 'facts' });
    expect(slot.visible().now).toBe('facts');
    expect(slot.status().rounds.map(({ round, stale }) => [round, stale])).toEqual([
      ['list', false],
      ['watch', true],
    ]);
  });

  it('the board applies the markAfter of a round only if it is lower than the configured one', () => {
    let now = 0;
    const staleness = { markAfter: 3, withdrawAfter: 20, withdrawAtMost: 30 * MINUTE };
    const rounds = { sooner: { every: MINUTE, markAfter: 2 }, later: { every: MINUTE, markAfter: 9 } };
    const slot = createCollectorState({ account: 'a', collector: 'x' }, rounds, staleness, {
      now: () => now,
      monotonic: () => now,
    });
    const stale = (minutes: number) => {
      now = minutes * MINUTE;
      return slot.status().rounds.map(({ stale }) => stale);
    };
    expect([stale(2), stale(2.01), stale(3.01)]).toEqual([
      [false, false],
      [true, false],
      [true, true],
    ]);
  });

  it('the board reports an account as up only if the last round of every collector succeeded', () => {
    const [one, two] = [slotWith(MINUTE), slotWith(MINUTE)];
    const up = () => accountStatus('a', [one.slot, two.slot]).up;
    expect(up()).toBe(false);
    one.succeed();
    expect(up()).toBe(false);
    two.succeed();
    expect(up()).toBe(true);
    one.fail();
    expect(up()).toBe(false);
  });
});
