import { describe, expect, it } from 'vitest';
import { accountStatus, createSlot } from '../../src/scheduler/board.ts';

const MINUTE = 60_000;

function slotWith(every: number) {
  let now = 0;
  const staleness = { markAfter: 3, withdrawAfter: 20, withdrawAtMost: 30 * MINUTE };
  const slot = createSlot({ account: 'a', collector: 'dlq' }, { full: every }, staleness, { monotonic: () => now });
  const round = () => slot.status().rounds[0];
  return {
    slot,
    round,
    at: (minutes: number) => {
      now = minutes * MINUTE;
    },
    succeed: (facts: unknown = 'facts', durationSeconds = 1) =>
      slot.succeeded('full', { at: 1000, durationSeconds, facts }),
    fail: () => slot.failed('full', { durationSeconds: 1, complete: false, reason: 'server', message: 'status 500' }),
  };
}

describe('board', () => {
  it('shows nothing before the first complete round, and marks that as stale after a while', () => {
    const { slot, round, at } = slotWith(MINUTE);
    expect(slot.visible()).toBeUndefined();
    at(3);
    expect(round()).toMatchObject({ stale: false, success: undefined, dataAt: undefined });
    at(3.01);
    expect(round()?.stale).toBe(true);
    at(100);
    expect(slot.status().withdrawn).toBe(false);
  });

  it('keeps, marks, then withdraws data that is no longer refreshed, and brings it back', () => {
    const { slot, round, at, succeed, fail } = slotWith(MINUTE);
    succeed();
    fail();
    const seen = [3, 3.01, 20, 20.01].map(minutes => {
      at(minutes);
      return [round()?.stale, slot.visible(), slot.status().withdrawn];
    });
    expect(seen).toEqual([
      [false, 'facts', false],
      [true, 'facts', false],
      [true, 'facts', false],
      [true, undefined, true],
    ]);
    succeed('new');
    expect(slot.visible()).toBe('new');
    expect(round()).toMatchObject({ stale: false, success: true, consecutiveFailures: 0, dataAt: 1000 });
  });

  it('withdraws after withdrawAtMost where that is shorter, but never before it marks', () => {
    const hourly = slotWith(60 * MINUTE);
    hourly.succeed();
    hourly.at(180);
    expect(hourly.slot.visible()).toBe('facts');
    hourly.at(180.01);
    expect(hourly.slot.visible()).toBeUndefined();
    const quarter = slotWith(5 * MINUTE);
    quarter.succeed();
    quarter.at(30);
    expect(quarter.slot.visible()).toBe('facts');
    quarter.at(30.01);
    expect(quarter.slot.visible()).toBeUndefined();
  });

  it('gives a round that takes longer than its interval the time it takes', () => {
    const { slot, round, at, succeed } = slotWith(MINUTE);
    at(40);
    succeed('after a walk of forty minutes', 40 * 60);
    expect([slot.visible(), round()?.stale]).toEqual(['after a walk of forty minutes', false]);
    at(80);
    expect([slot.visible() !== undefined, round()?.stale]).toEqual([true, false]);
    at(160.01);
    expect([slot.visible(), round()?.stale]).toEqual([undefined, true]);
  });

  it('calls an account up only when the last round of every collector succeeded', () => {
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
